import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, newKey, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

interface Held {
  readonly tenant: TestTenant;
  readonly id: string;
  readonly created: Json;
}

async function hold(
  allocated: number,
  amount: number,
  more: Record<string, unknown> = {},
  settings: Record<string, unknown> = {},
): Promise<Held> {
  const tenant = await on.holdfast.fundedTenant(allocated, settings);
  const created = expectStatus(await on.holdfast.reserve(tenant, amount, more), 200);
  return { tenant, id: created.reservation_id as string, created };
}

describe('commit over HTTP', () => {
  test('charges the actual amount and returns the rest', async () => {
    shows('commitReservation');
    const { tenant, id } = await hold(1000, 100);
    const body = expectStatus(await on.holdfast.commit(tenant, id, 60, { metadata: { run: 7 } }), 200);
    expect(Object.keys(body).sort()).toEqual(['balances', 'charged', 'released', 'status']);
    expect(body).toMatchObject({
      status: 'COMMITTED',
      charged: { amount: 60 },
      released: { unit: 'TOKENS', amount: 40 },
    });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '940 0 60 0' });
    const detail = expectStatus(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      200,
    );
    expect(detail).toMatchObject({
      status: 'COMMITTED',
      committed: { amount: 60 },
      committed_metadata: { run: 7 },
    });
    expect(typeof detail.finalized_at_ms).toBe('number');
    expect(await on.holds.isIndexed(id)).toBe(false);
  });

  test('of the whole estimate mentions no returned amount, and neither does its repetition', async () => {
    const { tenant, id } = await hold(1000, 100);
    const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 100 } };
    const answer = await on.holdfast.settle(tenant, 'commit', id, commit);
    expect(Object.keys(expectStatus(answer, 200)).sort()).toEqual(['balances', 'charged', 'status']);
    expect((await on.holdfast.settle(tenant, 'commit', id, commit)).text).toBe(answer.text);
  });

  test('caps the charge at the smallest headroom and marks only the scope that fell short', async () => {
    const tenant = await on.holdfast.fundedTenant(110);
    await on.holdfast.createBudget(tenant, '/agent:bot', 30);
    const subject = { tenant: tenant.id, agent: 'bot' };
    const id = await on.holdfast.hold(tenant, 10, { subject });
    const body = expectStatus(await on.holdfast.commit(tenant, id, 50), 200);
    expect(body.charged.amount).toBe(30);
    expect(body).not.toHaveProperty('released');
    expect(body.balances.map((balance: Json) => [balance.is_over_limit, balance.debt])).toEqual([
      [undefined, undefined],
      [true, undefined],
    ]);
    expectRefusal(await on.holdfast.reserve(tenant, 0, { subject }), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  });

  test('goes into debt only as far as the overdraft limit, and only for the unfunded part', async () => {
    shows('overdraft limit at commit');
    const tenant = await on.holdfast.fundedTenant(
      30,
      {},
      { overdraft_limit: { unit: 'TOKENS', amount: 100 } },
    );
    const policy = { overage_policy: 'ALLOW_WITH_OVERDRAFT' };
    const id = await on.holdfast.hold(tenant, 10, policy);
    expectRefusal(await on.holdfast.commit(tenant, id, 131), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '20 10 0 0' });
    const body = expectStatus(await on.holdfast.commit(tenant, id, 60), 200);
    expect(body.charged.amount).toBe(60);
    expect(body.balances[0]).toMatchObject({
      debt: { unit: 'TOKENS', amount: 30 },
      overdraft_limit: { unit: 'TOKENS', amount: 100 },
    });
    expect(body.balances[0]).not.toHaveProperty('is_over_limit');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '-30 0 30 30' });
    expect(await on.holdfast.metric('cycles_overdraft_incurred_total', { tenant: tenant.id })).toBe(1);
    expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_EXCEEDED');
  });

  test('under REJECT refuses more than the estimate and keeps the hold for a smaller commit', async () => {
    const { tenant, id } = await hold(1000, 10, { overage_policy: 'REJECT' });
    expectRefusal(await on.holdfast.commit(tenant, id, 11), 409, 'BUDGET_EXCEEDED');
    expectStatus(await on.holdfast.commit(tenant, id, 10), 200);
  });

  test('refuses another unit and keeps the hold', async () => {
    shows('wrong unit');
    const { tenant, id } = await hold(1000, 10);
    const { details } = expectRefusal(
      await on.holdfast.settle(tenant, 'commit', id, { actual: { unit: 'CREDITS', amount: 1 } }),
      400,
      'UNIT_MISMATCH',
    );
    expect(details).toEqual({
      scope: `tenant:${tenant.id}`,
      requested_unit: 'CREDITS',
      expected_units: ['TOKENS'],
    });
    expectStatus(await on.holdfast.commit(tenant, id, 10), 200);
  });

  test('is honoured in the grace window and refused after it, whether or not the sweep has run', async () => {
    shows('expired');
    const inGrace = await hold(100, 10, { grace_period_ms: 60_000 });
    await on.holds.expireIn(inGrace.id, -30_000);
    expectStatus(await on.holdfast.commit(inGrace.tenant, inGrace.id, 10), 200);
    const late = await hold(100, 10, { grace_period_ms: 1000 });
    await on.holds.expireIn(late.id, -30_000);
    expectRefusal(await on.holdfast.commit(late.tenant, late.id, 10), 410, 'RESERVATION_EXPIRED');
    expect(await on.holdfast.balances(late.tenant)).toEqual({ [`tenant:${late.tenant.id}`]: '100 0 0 0' });
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: late.tenant.id })).toBe(1);
    expectRefusal(await on.holdfast.commit(late.tenant, late.id, 10), 410, 'RESERVATION_EXPIRED');
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: late.tenant.id })).toBe(1);
  });

  test('of many with different keys exactly one wins', async () => {
    shows('finalized');
    const { tenant, id } = await hold(100, 10);
    const answers = await Promise.all(Array.from({ length: 20 }, () => on.holdfast.commit(tenant, id, 10)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ body }) => body.error === 'RESERVATION_FINALIZED')).toHaveLength(19);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 0 10 0' });
  });
});

describe('release over HTTP', () => {
  test('returns the hold, and its response has exactly its fields', async () => {
    shows('releaseReservation');
    const { tenant, id } = await hold(100, 40);
    const body = expectStatus(await on.holdfast.settle(tenant, 'release', id, { reason: 'not needed' }), 200);
    expect(Object.keys(body).sort()).toEqual(['balances', 'released', 'status']);
    expect(body).toMatchObject({ status: 'RELEASED', released: { unit: 'TOKENS', amount: 40 } });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '100 0 0 0' });
    expectRefusal(await on.holdfast.settle(tenant, 'release', id), 409, 'RESERVATION_FINALIZED');
    expectRefusal(await on.holdfast.commit(tenant, id, 1), 409, 'RESERVATION_FINALIZED');
    expectRefusal(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }),
      409,
      'RESERVATION_FINALIZED',
    );
    expect(
      await on.holdfast.metric('cycles_reservations_release_total', {
        tenant: tenant.id,
        decision: 'RELEASED',
        actor_type: 'tenant',
      }),
    ).toBe(1);
    expect(
      await on.holdfast.metric('cycles_reservations_release_total', {
        tenant: tenant.id,
        reason: 'RESERVATION_FINALIZED',
      }),
    ).toBe(1);
  });

  test('works in the grace window, and gets 410 after it', async () => {
    shows('expired');
    const inGrace = await hold(100, 10, { grace_period_ms: 60_000 });
    await on.holds.expireIn(inGrace.id, -30_000);
    expectStatus(await on.holdfast.settle(inGrace.tenant, 'release', inGrace.id), 200);
    const late = await hold(100, 10, { grace_period_ms: 0 });
    await on.holds.expireIn(late.id, -1000);
    expectRefusal(await on.holdfast.settle(late.tenant, 'release', late.id), 410, 'RESERVATION_EXPIRED');
  });
});

describe('extend over HTTP', () => {
  test('moves the expiry from where it was, not from now', async () => {
    shows('extendReservation');
    const { tenant, id, created } = await hold(100, 10, { ttl_ms: 20_000 });
    const body = expectStatus(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 5000 }), 200);
    expect(Object.keys(body).sort()).toEqual(['expires_at_ms', 'remaining_ttl_ms', 'status']);
    expect(body).toMatchObject({ status: 'ACTIVE', expires_at_ms: created.expires_at_ms + 5000 });
    expect(body.remaining_ttl_ms).toBeGreaterThan(20_000);
    expect(body.remaining_ttl_ms).toBeLessThanOrEqual(25_000);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
  });

  test('is refused once the lease has ended, grace or not', async () => {
    shows('expired');
    const { tenant, id } = await hold(100, 10, { grace_period_ms: 60_000 });
    await on.holds.expireIn(id, -10);
    expectRefusal(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }),
      410,
      'RESERVATION_EXPIRED',
    );
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
  });

  test('stops at the number of extensions that the reserve captured', async () => {
    shows('tenant defaults');
    const { tenant, id } = await hold(100, 10, {}, { max_reservation_extensions: 2 });
    const extend = () => on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 });
    expectStatus(await extend(), 200);
    expectStatus(await extend(), 200);
    expectRefusal(await extend(), 409, 'MAX_EXTENSIONS_EXCEEDED');
    expect(
      await on.holdfast.metric('cycles_reservations_extend_total', {
        tenant: tenant.id,
        reason: 'MAX_EXTENSIONS_EXCEEDED',
      }),
    ).toBe(1);
  });

  test('grants at most the longest lease of the tenant', async () => {
    const { tenant, id, created } = await hold(
      100,
      10,
      {},
      { max_reservation_ttl_ms: 10_000, default_reservation_ttl_ms: 10_000 },
    );
    const body = expectStatus(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 86_400_000 }),
      200,
    );
    expect(body.expires_at_ms).toBe(created.expires_at_ms + 10_000);
  });

  test.each([0, 86_400_001, 1.5, '1000', null])('refuses extend_by_ms %j', async (extend_by_ms) => {
    const { tenant, id } = await hold(100, 10);
    const { message } = expectRefusal(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms }),
      400,
      'INVALID_REQUEST',
    );
    expect(message).toContain('extend_by_ms');
  });

  test('accepts both limits', async () => {
    const { tenant, id } = await hold(100, 10);
    expectStatus(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1 }), 200);
    expectStatus(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 86_400_000 }), 200);
  });
});

describe('the owner of a reservation', () => {
  test.each(['rsv_00aaaaaaaaaaaaaaaa', 'rsv_zz', 'nonsense', 'rsv_ffaaaaaaaaaaaaaaaa'])(
    'an id that was never issued is 404: %s',
    async (id) => {
      shows('unknown reservation');
      const tenant = await on.holdfast.createTenant();
      expectRefusal(await on.holdfast.commit(tenant, id, 1), 404, 'NOT_FOUND');
      expectRefusal(await on.holdfast.settle(tenant, 'release', id), 404, 'NOT_FOUND');
      expectRefusal(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1 }), 404, 'NOT_FOUND');
      expectRefusal(
        await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
        404,
        'NOT_FOUND',
      );
    },
  );

  test('an id of 128 characters is looked up, one of 129 is refused by every operation', async () => {
    shows('unknown reservation');
    const tenant = await on.holdfast.createTenant();
    for (const [id, status, code] of [
      ['r'.repeat(128), 404, 'NOT_FOUND'],
      ['r'.repeat(129), 400, 'INVALID_REQUEST'],
    ] as const) {
      const path = `/v1/reservations/${id}`;
      for (const answer of [
        await on.holdfast.commit(tenant, id, 1),
        await on.holdfast.settle(tenant, 'release', id),
        await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1 }),
        await on.holdfast.call('GET', path, { key: tenant.key }),
        await on.holdfast.admin('GET', path),
        await on.holdfast.admin('POST', `${path}/release`, { idempotency_key: newKey() }),
        await on.holdfast.admin('GET', `/ops/reservations/${id}`),
        await on.holdfast.admin('GET', `/ops/quarantine/${id}`),
        await on.holdfast.admin('POST', `/ops/quarantine/${id}/decide`, { action: 'retry' }),
      ]) {
        const { message } = expectRefusal(answer, status, code);
        expect(
          status === 404 || message.includes('reservation_id must be a string of 1 to 128 characters'),
        ).toBe(true);
      }
      expectRefusal(await on.holdfast.call('GET', path), 401, 'UNAUTHORIZED');
    }
  });

  test("another tenant's reservation is 403 for every operation, and stays as it was", async () => {
    shows('reservation of another tenant', 'getReservation');
    const { tenant, id } = await hold(100, 10);
    const other = await on.holdfast.createTenant();
    expectRefusal(await on.holdfast.commit(other, id, 1), 403, 'FORBIDDEN');
    expectRefusal(await on.holdfast.settle(other, 'release', id), 403, 'FORBIDDEN');
    expectRefusal(await on.holdfast.settle(other, 'extend', id, { extend_by_ms: 1 }), 403, 'FORBIDDEN');
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: other.key }),
      403,
      'FORBIDDEN',
    );
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
  });

  test('a key confined to a scope may touch only reservations inside it', async () => {
    const { tenant, id } = await hold(100, 10, { subject: { agent: 'b' } });
    const confined = {
      id: tenant.id,
      key: await on.holdfast.createKey(tenant.id, { scope_filter: ['agent:a'] }),
    };
    expectRefusal(await on.holdfast.reserve(confined, 1, { subject: { agent: 'b' } }), 403, 'FORBIDDEN');
    expectRefusal(await on.holdfast.commit(confined, id, 1), 403, 'FORBIDDEN');
    expectRefusal(await on.holdfast.settle(confined, 'release', id), 403, 'FORBIDDEN');
    expectRefusal(await on.holdfast.settle(confined, 'extend', id, { extend_by_ms: 1 }), 403, 'FORBIDDEN');
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: confined.key }),
      403,
      'FORBIDDEN',
    );
    const own = expectStatus(await on.holdfast.reserve(confined, 1, { subject: { agent: 'a' } }), 200);
    expectStatus(await on.holdfast.commit(confined, own.reservation_id, 1), 200);
  });

  test.each([
    ['reservations:create', 'reserve'],
    ['reservations:commit', 'commit'],
    ['reservations:release', 'release'],
    ['reservations:extend', 'extend'],
    ['reservations:list', 'get'],
    ['balances:read', 'balances'],
  ])('a key without %s may not %s', async (missing, operation) => {
    const { tenant, id } = await hold(100, 10);
    const all = [
      'reservations:create',
      'reservations:commit',
      'reservations:release',
      'reservations:extend',
      'reservations:list',
      'balances:read',
    ];
    const permissions = all.filter((permission) => permission !== missing);
    const weak = { id: tenant.id, key: await on.holdfast.createKey(tenant.id, { permissions }) };
    const calls: Record<string, () => Promise<Json>> = {
      reserve: () => on.holdfast.reserve(weak, 1),
      commit: () => on.holdfast.commit(weak, id, 1),
      release: () => on.holdfast.settle(weak, 'release', id),
      extend: () => on.holdfast.settle(weak, 'extend', id, { extend_by_ms: 1 }),
      get: () => on.holdfast.call('GET', `/v1/reservations/${id}`, { key: weak.key }),
      balances: () => on.holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: weak.key }),
    };
    expectRefusal(await (calls[operation] as () => Promise<Json>)(), 403, 'FORBIDDEN');
  });

  test('the header key must equal the body key', async () => {
    const { tenant, id } = await hold(100, 10);
    const answer = await on.holdfast.call('POST', `/v1/reservations/${id}/release`, {
      key: tenant.key,
      body: { idempotency_key: newKey() },
      headers: { 'x-idempotency-key': newKey() },
    });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toContain('X-Idempotency-Key');
  });
});
