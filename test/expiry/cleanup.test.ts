import { describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import { cleanupIndexKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { expectRefusal, expectStatus, type Answer, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { expiredEvents, makeDue, startSweeper, stateOf } from './instances.js';

const on = useGovernance();

const newTenant = (policy = 'MANUAL_CLEANUP'): Promise<TestTenant> =>
  on.holdfast.fundedTenant(1_000_000, { reservation_expiry_policy: policy });

async function waiting(tenant: TestTenant, count: number, byMs = 5000): Promise<string[]> {
  const ids = await makeDue(on.holdfast, on.holds, tenant, count, byMs);
  await on.holdfast.app.get(ExpiryService).sweep();
  return ids;
}

const cleanup = (body: object): Promise<Answer> =>
  on.holdfast.admin('POST', '/ops/reservations/cleanup', body);
const cleaned = async (body: object): Promise<Json> => expectStatus(await cleanup(body), 200);
const reserved = async (tenant: TestTenant): Promise<number> => {
  const { balances } = expectStatus(
    await on.holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key }),
    200,
  );
  return balances[0].reserved.amount as number;
};
const statusesOf = async (tenant: TestTenant, query = ''): Promise<Record<string, string>> => {
  const { reservations } = expectStatus(
    await on.holdfast.call('GET', `/v1/reservations?${query}`, { key: tenant.key }),
    200,
  );
  return Object.fromEntries(reservations.map(({ reservation_id: id, status }: Json) => [id, status]));
};

describe('a reservation under MANUAL_CLEANUP whose grace is over', () => {
  test('is ACTIVE to every reader, keeps its budget, and can be released but neither committed nor extended', async () => {
    shows('expiry policies');
    const tenant = await newTenant();
    const [id] = (await waiting(tenant, 1)) as [string];
    expect(
      expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200),
    ).toMatchObject({ status: 'ACTIVE' });
    const now = new Date(Date.now() + 60_000).toISOString();
    expect(await statusesOf(tenant, `status=ACTIVE&expires_to=${now}`)).toEqual({ [id]: 'ACTIVE' });
    expect(await statusesOf(tenant, 'status=EXPIRED')).toEqual({});
    expectRefusal(await on.holdfast.commit(tenant, id, 5), 410, 'RESERVATION_EXPIRED');
    expectRefusal(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }),
      410,
      'RESERVATION_EXPIRED',
    );
    expectRefusal(await on.holdfast.reserve(tenant, 999_999), 409, 'BUDGET_EXCEEDED');
    expect(await reserved(tenant)).toBe(10);
    expect(
      expectStatus(await on.holdfast.admin('GET', `/ops/verify?tenant=${tenant.id}`), 200),
    ).toMatchObject({
      ok: true,
      budgets: 1,
    });
    expect(expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200)).toMatchObject({
      state: 'ACTIVE',
      expiry_policy: 'MANUAL_CLEANUP',
      awaiting_cleanup: true,
    });
    expect(await expiredEvents(on.holds, id)).toBe(0);
    expectStatus(await on.holdfast.settle(tenant, 'release', id), 200);
    expect(await reserved(tenant)).toBe(0);
    expect(await expiredEvents(on.holds, id)).toBe(0);
  });

  test('is released by an operator, too', async () => {
    const tenant = await newTenant();
    const [id] = (await waiting(tenant, 1)) as [string];
    expectStatus(
      await on.holdfast.admin('POST', `/v1/reservations/${id}/release`, { idempotency_key: `k-${id}` }),
      200,
    );
    expect(await stateOf(on.holds, id)).toBe('RELEASED');
  });

  test('is released by the closing of its tenant', async () => {
    const tenant = await newTenant();
    const [id] = (await waiting(tenant, 1)) as [string];
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    expect(await stateOf(on.holds, id)).toBe('RELEASED');
    expect(await on.holds.redis.zscore(cleanupIndexKey(on.holds.tagOfTenant(tenant.id)), id)).toBeNull();
  });

  test("that is missing from its index, or is in the sweeper's index, is put back into its own", async () => {
    const tenant = await newTenant();
    const [lost, moved] = (await waiting(tenant, 2)) as [string, string];
    const tag = on.holds.tagOfTenant(tenant.id);
    const score = await on.holds.redis.zscore(cleanupIndexKey(tag), moved);
    await on.holds.redis.zrem(cleanupIndexKey(tag), lost, moved);
    await on.holds.redis.zadd(ttlIndexKey(tag), 1, moved);
    await on.holdfast.app.get(ExpiryService).sweep();
    expect([
      await on.holds.redis.zscore(cleanupIndexKey(tag), moved),
      await on.holds.isIndexed(moved),
    ]).toEqual([score, false]);
    expect(await on.holdfast.app.get(Reconciler).reconcile()).toMatchObject({ missing: 1, misplaced: 0 });
    expect(await on.holds.redis.zscore(cleanupIndexKey(tag), lost)).not.toBeNull();
    expect(await on.holds.isIndexed(lost)).toBe(false);
    expect(await on.holdfast.app.get(Reconciler).reconcile()).toMatchObject({ missing: 0, misplaced: 0 });
    expect(await cleaned({ tenant_id: tenant.id })).toMatchObject({ outcomes: { EXPIRED: 2 } });
  });
});

describe('a reservation under GRACE_ONLY', () => {
  test('is committed in its grace, and afterwards it is EXPIRED and its budget is back', async () => {
    shows('expiry policies');
    const tenant = await newTenant('GRACE_ONLY');
    const inGrace = await on.holdfast.hold(tenant, 10, { grace_period_ms: 60_000 });
    await on.holds.expireIn(inGrace, -1000);
    expectRefusal(
      await on.holdfast.settle(tenant, 'extend', inGrace, { extend_by_ms: 1000 }),
      410,
      'RESERVATION_EXPIRED',
    );
    expectStatus(await on.holdfast.commit(tenant, inGrace, 5), 200);
    const [id] = (await waiting(tenant, 1)) as [string];
    expect(await stateOf(on.holds, id)).toBe('EXPIRED');
    expectRefusal(await on.holdfast.commit(tenant, id, 5), 410, 'RESERVATION_EXPIRED');
    expect(expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200)).toMatchObject({
      state: 'EXPIRED',
      expiry_policy: 'GRACE_ONLY',
    });
    expect([await reserved(tenant), await expiredEvents(on.holds, id)]).toEqual([0, 1]);
  });
});

describe('the policy of a tenant', () => {
  test('is returned, and a change of it applies to later reservations', async () => {
    const change = (tenant: string, policy: unknown): Promise<Answer> =>
      on.holdfast.admin('PUT', `/ops/tenants/${tenant}/expiry-policy`, { reservation_expiry_policy: policy });
    const tenant = await newTenant('AUTO_RELEASE');
    const [before] = (await Promise.all([on.holdfast.reserve(tenant, 10, { grace_period_ms: 0 })])).map(
      (answer) => expectStatus(answer, 200).reservation_id as string,
    ) as [string];
    expect(expectStatus(await change(tenant.id, 'MANUAL_CLEANUP'), 200)).toMatchObject({
      reservation_expiry_policy: 'MANUAL_CLEANUP',
    });
    const [after] = (await waiting(tenant, 1)) as [string];
    await on.holds.expireIn(before, -1000);
    await on.holdfast.app.get(ExpiryService).sweep();
    expect([await stateOf(on.holds, before), await stateOf(on.holds, after)]).toEqual(['EXPIRED', 'ACTIVE']);
    expectStatus(await change(tenant.id, 'AUTO_RELEASE'), 200);
    await on.holdfast.app.get(ExpiryService).sweep();
    expect(await stateOf(on.holds, after)).toBe('ACTIVE');
    expect(await cleaned({ tenant_id: tenant.id })).toMatchObject({ outcomes: { EXPIRED: 1 } });
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?operation=updateTenant&resource_id=${tenant.id}`),
      200,
    );
    expect(logs.map(({ metadata }: Json) => metadata.changed_fields)).toEqual([
      'reservation_expiry_policy',
      'reservation_expiry_policy',
    ]);
    expectRefusal(await change(tenant.id, 'NEVER'), 400, 'INVALID_REQUEST');
    expectRefusal(await change(tenant.id, undefined), 400, 'INVALID_REQUEST');
    expectRefusal(await change('no-such-tenant', 'GRACE_ONLY'), 404, 'TENANT_NOT_FOUND');
    expectRefusal(
      await on.holdfast.call('PUT', `/ops/tenants/${tenant.id}/expiry-policy`, { key: tenant.key, body: {} }),
      401,
      'UNAUTHORIZED',
    );
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    expectRefusal(await change(tenant.id, 'GRACE_ONLY'), 409, 'TENANT_CLOSED');
  });
});

describe('POST /ops/reservations/cleanup', () => {
  test('expires waiting reservations, the oldest first, in pages, with counters, events and audit rows', async () => {
    shows('expiry policies');
    const tenant = await newTenant();
    const other = await newTenant();
    const ids = await waiting(tenant, 45);
    const [foreign] = (await waiting(other, 1)) as [string];
    const count = () =>
      on.holdfast.metric('holdfast_expiry_outcomes_total', {
        source: 'cleanup',
        outcome: 'EXPIRED',
        detail: 'none',
      });
    const [counted, late] = [
      await count(),
      await on.holdfast.metric('holdfast_expiry_lateness_seconds_count'),
    ];
    const first = await cleaned({ tenant_id: tenant.id, limit: 30, reason: 'INC-7' });
    expect(first).toMatchObject({
      dry_run: false,
      examined: 30,
      outcomes: { EXPIRED: 30 },
      has_more: true,
      next_cursor: expect.any(String),
    });
    expect(first.reservations[0]).toEqual({
      reservation_id: expect.any(String),
      outcome: 'EXPIRED',
      tenant_id: tenant.id,
      reclaim_at_ms: expect.any(Number),
    });
    const second = await cleaned({ tenant_id: tenant.id, limit: 30, cursor: first.next_cursor });
    expect(second).toMatchObject({ outcomes: { EXPIRED: 15 }, has_more: false });
    expect(
      [...first.reservations, ...second.reservations].map(({ reservation_id: id }: Json) => id).sort(),
    ).toEqual([...ids].sort());
    expect([await count(), await on.holdfast.metric('holdfast_expiry_lateness_seconds_count')]).toEqual([
      counted + 45,
      late,
    ]);
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(45);
    expect([await reserved(tenant), await reserved(other), await stateOf(on.holds, foreign)]).toEqual([
      0,
      10,
      'ACTIVE',
    ]);
    const id = ids[0] as string;
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    expect(await expiredEvents(on.holds, id)).toBe(1);
    expect(expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200)).toMatchObject({
      state: 'EXPIRED',
      expiry_policy: 'MANUAL_CLEANUP',
      end: { how: 'EXPIRED', by: { type: 'admin' } },
    });
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?operation=cleanupReservations&resource_id=${id}`),
      200,
    );
    expect(logs).toHaveLength(1);
    expect(logs[0]).toMatchObject({
      resource_type: 'reservation',
      metadata: { actor_type: 'admin', tenant_id: tenant.id, reason: 'INC-7' },
    });
  });

  test('examines, of one tenant, only its own: others in its partition are not told', async () => {
    const tenant = await newTenant();
    let beside = await newTenant();
    while (on.holds.tagOfTenant(beside.id) !== on.holds.tagOfTenant(tenant.id)) {
      beside = await newTenant();
    }
    await waiting(beside, 2);
    expect(await cleaned({ tenant_id: tenant.id })).toMatchObject({ examined: 0, has_more: false });
    expect((await cleaned({ all_tenants: true, dry_run: true })).examined).toBeGreaterThanOrEqual(2);
    expect(await cleaned({ tenant_id: beside.id })).toMatchObject({ examined: 2, outcomes: { EXPIRED: 2 } });
  });

  test('takes those of all tenants on request, previews what it would do, and waits as long as requested', async () => {
    const tenants = [await newTenant(), await newTenant()] as const;
    const ids = [
      ...(await waiting(tenants[0], 2, 3_600_000)),
      ...(await waiting(tenants[1], 1, 3_600_000)),
      ...(await waiting(tenants[1], 1, 1000)),
    ];
    const filter = { all_tenants: true, overdue_for_ms: 1_800_000 };
    const told = await cleaned({ ...filter, dry_run: true });
    expect(told).toMatchObject({ dry_run: true, outcomes: { WOULD_EXPIRE: 3 }, has_more: false });
    expect(await cleaned({ ...filter, dry_run: true })).toEqual(told);
    let [page, seen] = [await cleaned({ ...filter, limit: 1 }), [] as string[]];
    for (;;) {
      seen = [...seen, ...page.reservations.map(({ reservation_id: id }: Json) => id)];
      if (page.has_more === false) {
        break;
      }
      page = await cleaned({ ...filter, limit: 1, cursor: page.next_cursor });
    }
    expect(seen.sort()).toEqual(ids.slice(0, 3).sort());
    expect(await stateOf(on.holds, ids[3] as string)).toBe('ACTIVE');
  });

  test('quarantines reservations that cannot be settled and continues with the others', async () => {
    const tenant = await newTenant();
    const [ill, well] = (await waiting(tenant, 2)) as [string, string];
    await on.holds.set(ill, { am: 'many' });
    const report = await cleaned({ tenant_id: tenant.id });
    expect(report.outcomes).toEqual({ QUARANTINED: 1, EXPIRED: 1 });
    expect(report.reservations).toContainEqual({
      reservation_id: ill,
      outcome: 'QUARANTINED',
      detail: 'INVALID_ESTIMATE',
      tenant_id: tenant.id,
    });
    await on.holds.set(ill, { am: '10' });
    expectStatus(await on.holdfast.admin('POST', `/ops/quarantine/${ill}/decide`, { action: 'retry' }), 200);
    expect(await stateOf(on.holds, ill)).toBe('ACTIVE');
    expect(await cleaned({ tenant_id: tenant.id })).toMatchObject({ outcomes: { EXPIRED: 1 } });
    expect([await stateOf(on.holds, well), await reserved(tenant)]).toEqual(['EXPIRED', 0]);
  });

  test.each<[string, object, number, string]>([
    ['neither a tenant nor all', {}, 400, 'INVALID_REQUEST'],
    ['a tenant and all', { tenant_id: 'acme-1', all_tenants: true }, 400, 'INVALID_REQUEST'],
    ['an invalid tenant', { tenant_id: 'no-such-tenant' }, 404, 'TENANT_NOT_FOUND'],
    ['a malformed tenant', { tenant_id: 'No' }, 400, 'INVALID_REQUEST'],
    ['an unknown field', { all_tenants: true, older: 1 }, 400, 'INVALID_REQUEST'],
    ['a limit of 0', { all_tenants: true, limit: 0 }, 400, 'INVALID_REQUEST'],
    ['a limit above 1000', { all_tenants: true, limit: 1001 }, 400, 'INVALID_REQUEST'],
    ['a negative time', { all_tenants: true, overdue_for_ms: -1 }, 400, 'INVALID_REQUEST'],
    ['a foreign cursor', { all_tenants: true, cursor: 'x' }, 400, 'INVALID_REQUEST'],
  ])('refuses %s', async (_, body, status, code) => {
    expectRefusal(await cleanup(body), status, code);
  });

  test('is for operators only', async () => {
    const tenant = await newTenant();
    expectRefusal(
      await on.holdfast.call('POST', '/ops/reservations/cleanup', {
        key: tenant.key,
        body: { tenant_id: tenant.id },
      }),
      401,
      'UNAUTHORIZED',
    );
  });
});

test('reservations that await cleanup do not affect the sweeper: no backlog, no lateness, readiness green, and operators see how much waits and since when', async () => {
  const [manual, auto] = [await newTenant(), await newTenant('AUTO_RELEASE')];
  await waiting(manual, 3, 3_600_000);
  const sweeper = await startSweeper({ REDIS_URL: on.redis.url, sweepAlertMs: 2000 });
  try {
    const due = await makeDue(on.holdfast, on.holds, auto, 2);
    await eventually(
      'the sweeper expires what is due',
      async () => (await stateOf(on.holds, due[1] as string)) === 'EXPIRED',
    );
    await eventually(
      'the figures follow',
      async () => (await sweeper.metric('holdfast_cleanup_awaiting')) >= 3,
    );
    expect(await sweeper.metric('holdfast_cleanup_oldest_seconds')).toBeGreaterThanOrEqual(3600);
    expect(await sweeper.metric('holdfast_sweep_backlog')).toBe(0);
    expect(await sweeper.metric('holdfast_sweep_oldest_due_seconds')).toBe(0);
    expect(expectStatus(await sweeper.call('GET', '/health/ready'), 200)).toBeDefined();
    const state = await eventually('the state shows it', async () => {
      const body = expectStatus(await on.holdfast.admin('GET', '/ops/sweeper'), 200);
      return body.instances.length === 1 && body.instances[0].awaiting_cleanup >= 3 && body;
    });
    expect(state).toMatchObject({ backlog: 0, lateness_ms: 0 });
    expect(state.awaiting_cleanup).toBeGreaterThanOrEqual(3);
    expect(state.oldest_awaiting_for_ms).toBeGreaterThanOrEqual(3_600_000);
    const code = on.holds.tagOfTenant(manual.id).slice(2, 4);
    expect(state.partitions.find(({ partition }: Json) => partition === code)).toMatchObject({
      awaiting_cleanup: expect.any(Number),
      oldest_awaiting_at_ms: expect.any(Number),
    });
    await cleaned({ all_tenants: true, limit: 1000 });
    await eventually(
      'nothing waits any more',
      async () => (await sweeper.metric('holdfast_cleanup_awaiting')) === 0,
    );
  } finally {
    await sweeper.stop();
  }
});
