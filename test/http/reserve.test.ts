import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, newKey, reserveBody, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

describe('reserve over HTTP', () => {
  test('holds the amount at every budgeted scope, and answers with exactly the fields of a live hold', async () => {
    shows('scope derivation', 'createReservation');
    const tenant = await on.holdfast.fundedTenant();
    await on.holdfast.createBudget(tenant, '/agent:bot', 100);
    const subject = { tenant: tenant.id, workspace: 'prod', agent: 'bot' };
    await on.holdfast.createBudget(tenant, '/workspace:prod/agent:bot', 80);
    const answer = await on.holdfast.reserve(tenant, 60, { subject, ttl_ms: 30_000 });
    const body = expectStatus(answer, 200);
    expect(Object.keys(body).sort()).toEqual(
      [
        'affected_scopes',
        'balances',
        'decision',
        'expires_at_ms',
        'remaining_ttl_ms',
        'reservation_id',
        'reserved',
        'scope_path',
      ].sort(),
    );
    expect(body).toMatchObject({
      decision: 'ALLOW',
      remaining_ttl_ms: 30_000,
      reserved: { unit: 'TOKENS', amount: 60 },
      scope_path: `tenant:${tenant.id}/workspace:prod/agent:bot`,
      affected_scopes: [
        `tenant:${tenant.id}`,
        `tenant:${tenant.id}/workspace:prod`,
        `tenant:${tenant.id}/workspace:prod/agent:bot`,
      ],
    });
    expect(body.balances.map(({ scope, scope_path }: Record<string, string>) => [scope, scope_path])).toEqual(
      [
        [`tenant:${tenant.id}`, `tenant:${tenant.id}`],
        ['agent:bot', `tenant:${tenant.id}/workspace:prod/agent:bot`],
      ],
    );
    expect(answer.headers.get('x-cycles-tenant')).toBe(tenant.id);
    expect(await on.holdfast.balances(tenant)).toEqual({
      [`tenant:${tenant.id}`]: '940 60 0 0',
      [`tenant:${tenant.id}/agent:bot`]: '100 0 0 0',
      [`tenant:${tenant.id}/workspace:prod/agent:bot`]: '20 60 0 0',
    });
  });

  test('is refused as a whole when one scope cannot pay', async () => {
    shows('insufficient budget', 'reserve atomic');
    const tenant = await on.holdfast.fundedTenant();
    await on.holdfast.createBudget(tenant, '/agent:bot', 100);
    const subject = { tenant: tenant.id, agent: 'bot' };
    const refusal = expectRefusal(
      await on.holdfast.reserve(tenant, 150, { subject }),
      409,
      'BUDGET_EXCEEDED',
    );
    expect(refusal.message).toContain(`tenant:${tenant.id}/agent:bot`);
    expect(await on.holdfast.balances(tenant)).toEqual({
      [`tenant:${tenant.id}`]: '1000 0 0 0',
      [`tenant:${tenant.id}/agent:bot`]: '100 0 0 0',
    });
  });

  test('lets exactly ten of fifty parallel holds of 10 into 100', async () => {
    shows('reserve atomic');
    const tenant = await on.holdfast.fundedTenant(100);
    const answers = await Promise.all(Array.from({ length: 50 }, () => on.holdfast.reserve(tenant, 10)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(
      answers.filter(({ status, body }) => status === 409 && body.error === 'BUDGET_EXCEEDED'),
    ).toHaveLength(40);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '0 100 0 0' });
  });

  test('finds the same ledger in upper and lower case', async () => {
    const tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '/agent:Bot', 10);
    const subject = { tenant: tenant.id.toUpperCase(), agent: 'bOT' };
    const id = await on.holdfast.hold(tenant, 10, { subject });
    const detail = expectStatus(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      200,
    );
    expect(detail.subject).toEqual(subject);
    expect(detail.scope_path).toBe(`tenant:${tenant.id}/agent:bot`);
  });

  test("assumes the key's owner as tenant if the subject names none", async () => {
    shows('scope derivation');
    const tenant = await on.holdfast.fundedTenant(10);
    const body = expectStatus(await on.holdfast.reserve(tenant, 1, { subject: { agent: 'bot' } }), 200);
    expect(body.affected_scopes).toEqual([`tenant:${tenant.id}`, `tenant:${tenant.id}/agent:bot`]);
  });

  test('returns 404 without any budget and 400 UNIT_MISMATCH if there is one in another unit', async () => {
    shows('wrong unit', 'scope derivation');
    const tenant = await on.holdfast.createTenant();
    expectRefusal(await on.holdfast.reserve(tenant, 1), 404, 'NOT_FOUND');
    await on.holdfast.createBudget(tenant, '', 10, { unit: 'CREDITS' });
    const { details } = expectRefusal(await on.holdfast.reserve(tenant, 1), 400, 'UNIT_MISMATCH');
    expect(details).toEqual({
      scope: `tenant:${tenant.id}`,
      requested_unit: 'TOKENS',
      expected_units: ['CREDITS'],
    });
  });

  test('refuses the subject of another tenant and changes nothing', async () => {
    shows('subject of another tenant');
    const tenant = await on.holdfast.fundedTenant(10);
    const other = await on.holdfast.fundedTenant(10);
    expectRefusal(await on.holdfast.reserve(tenant, 1, { subject: { tenant: other.id } }), 403, 'FORBIDDEN');
    expect(await on.holdfast.balances(other)).toEqual({ [`tenant:${other.id}`]: '10 0 0 0' });
  });

  test('follows the tenant: its default lease, its longest lease, its overage policy', async () => {
    shows('tenant defaults');
    const tenant = await on.holdfast.fundedTenant(1000, {
      default_reservation_ttl_ms: 30_000,
      max_reservation_ttl_ms: 40_000,
      default_commit_overage_policy: 'REJECT',
    });
    const first = expectStatus(await on.holdfast.reserve(tenant, 10), 200);
    expect(first.remaining_ttl_ms).toBe(30_000);
    expect(
      expectStatus(await on.holdfast.reserve(tenant, 10, { ttl_ms: 60_000 }), 200).remaining_ttl_ms,
    ).toBe(40_000);
    expectRefusal(await on.holdfast.commit(tenant, first.reservation_id, 11), 409, 'BUDGET_EXCEEDED');
    const second = expectStatus(
      await on.holdfast.reserve(tenant, 10, { overage_policy: 'ALLOW_IF_AVAILABLE' }),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, second.reservation_id, 11), 200);
  });

  test('gives a lease of 60 s with 5 s of grace by default', async () => {
    const tenant = await on.holdfast.fundedTenant(10);
    const body = expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    expect(body.remaining_ttl_ms).toBe(60_000);
    expect((await on.holds.record(body.reservation_id))['gr']).toBe('5000');
  });

  test('expires overdue holds before it denies', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const dead = expectStatus(await on.holdfast.reserve(tenant, 100, { grace_period_ms: 0 }), 200);
    await on.holds.expireIn(dead.reservation_id, -1000);
    const before = await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id });
    expectStatus(await on.holdfast.reserve(tenant, 40), 200);
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(
      before + 1,
    );
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${dead.reservation_id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '60 40 0 0' });
  });

  test('carries the largest int64 through request, ledger, replay, reading and release without losing a digit', async () => {
    const max = 9223372036854775807n;
    const tenant = await on.holdfast.fundedTenant(max);
    const body = reserveBody(tenant, max);
    const send = () => on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body });
    const first = expectStatus(await send(), 200);
    expect(first.reserved.amount).toBe(max);
    expect(first.balances[0]).toMatchObject({
      reserved: { amount: max },
      remaining: { amount: 0 },
      allocated: { amount: max },
    });
    expect((await send()).body.balances).toEqual(first.balances);
    const detail = expectStatus(
      await on.holdfast.call('GET', `/v1/reservations/${first.reservation_id}`, { key: tenant.key }),
      200,
    );
    expect(detail.reserved.amount).toBe(max);
    const released = expectStatus(await on.holdfast.settle(tenant, 'release', first.reservation_id), 200);
    expect(released.released.amount).toBe(max);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: `${max} 0 0 0` });
  });

  test.each([
    ['ttl_ms', { ttl_ms: 999 }],
    ['ttl_ms', { ttl_ms: 86_400_001 }],
    ['grace_period_ms', { grace_period_ms: -1 }],
    ['grace_period_ms', { grace_period_ms: 60_001 }],
    ['idempotency_key', { idempotency_key: '' }],
    ['idempotency_key', { idempotency_key: 'k'.repeat(257) }],
    ['action.kind', { action: { kind: 'k'.repeat(65), name: 'n' } }],
    ['action.name', { action: { kind: 'k', name: ' ' } }],
    ['action.name', { action: { kind: 'k', name: 'n'.repeat(257) } }],
    ['action.tags', { action: { kind: 'k', name: 'n', tags: Array.from({ length: 11 }, () => 't') } }],
    ['action.tags', { action: { kind: 'k', name: 'n', tags: ['t'.repeat(65)] } }],
    ['subject.agent', { subject: { agent: 'a'.repeat(129) } }],
    ['subject.agent', { subject: { agent: 'a/b' } }],
    ['subject', { subject: { dimensions: { a: 'b' } } }],
    ['subject.agent', { subject: { agent: '' } }],
    [
      'subject.dimensions',
      {
        subject: {
          agent: 'a',
          dimensions: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`d${i}`, 'v'])),
        },
      },
    ],
    ['estimate.amount', { estimate: { unit: 'TOKENS', amount: -1 } }],
    ['estimate.amount', { estimate: { unit: 'TOKENS', amount: 1.5 } }],
    ['estimate.amount', { estimate: { unit: 'TOKENS', amount: 9223372036854775808n } }],
    ['estimate.amount', { estimate: { unit: 'TOKENS', amount: '1' } }],
    ['estimate.unit', { estimate: { unit: 'EUR', amount: 1 } }],
    ['estimate.extra', { estimate: { unit: 'TOKENS', amount: 1, extra: 1 } }],
    ['overage_policy', { overage_policy: 'MAYBE' }],
    ['dry_run', { dry_run: 'yes' }],
    ['metadata', { metadata: [] }],
    ['metadata', { metadata: null }],
    ['unknown', { unknown: 1 }],
  ])('refuses a bad %s by name: %j', async (field, change) => {
    shows('subject levels');
    const tenant = { id: shared.id, key: shared.key };
    const { message } = expectRefusal(await on.holdfast.reserve(tenant, 1, change), 400, 'INVALID_REQUEST');
    expect(message).toContain(field);
  });

  let shared: TestTenant;
  beforeAll(async () => {
    shared = await on.holdfast.fundedTenant(1_000_000);
  });

  test('accepts each limit itself', async () => {
    shows('subject levels');
    const dimensions = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`d${i}`, 'v'.repeat(256)]));
    const action = {
      kind: 'k'.repeat(64),
      name: 'n'.repeat(256),
      tags: ['', ...Array.from({ length: 9 }, () => 't'.repeat(64))],
    };
    const subject = { tenant: shared.id, agent: 'a'.repeat(128), dimensions };
    const metadata = { nested: { list: [1, null, 'x'], big: 9007199254740993n } };
    const most = {
      idempotency_key: newKey().padEnd(256, 'k'),
      ttl_ms: 86_400_000,
      grace_period_ms: 60_000,
      subject,
      action,
      metadata,
    };
    const id = await on.holdfast.hold(shared, 0, most);
    const detail = expectStatus(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: shared.key }),
      200,
    );
    expect(detail).toMatchObject({
      subject,
      action,
      metadata,
      status: 'ACTIVE',
      idempotency_key: most.idempotency_key,
    });
    expect(detail.finalized_at_ms).toBeUndefined();
    expectStatus(
      await on.holdfast.reserve(shared, 0, { ttl_ms: 1000, grace_period_ms: 0, idempotency_key: 'k' }),
      200,
    );
  });

  test('counts one sample for an allowed, a denied and a replayed reserve', async () => {
    const tenant = await on.holdfast.fundedTenant(10);
    const body = reserveBody(tenant, 5, { overage_policy: 'REJECT' });
    await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body });
    await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body });
    await on.holdfast.reserve(tenant, 50);
    const count = (reason: string, decision: string, overage_policy: string) =>
      on.holdfast.metric('cycles_reservations_reserve_total', {
        tenant: tenant.id,
        decision,
        reason,
        overage_policy,
      });
    expect(await count('OK', 'ALLOW', 'REJECT')).toBe(1);
    expect(await count('IDEMPOTENT_REPLAY', 'ALLOW', 'REJECT')).toBe(1);
    expect(await count('BUDGET_EXCEEDED', 'DENY', 'DEFAULT')).toBe(1);
  });

  test('a dry run responds as a live one would and changes nothing', async () => {
    shows('dry run', 'shape of dry run');
    const tenant = await on.holdfast.fundedTenant(10);
    const allowed = expectStatus(await on.holdfast.reserve(tenant, 4, { dry_run: true }), 200);
    expect(allowed).toMatchObject({
      decision: 'ALLOW',
      balances: [{ remaining: { amount: 6 }, reserved: { amount: 4 } }],
    });
    expect(Object.keys(allowed)).not.toEqual(
      expect.arrayContaining(['reservation_id', 'expires_at_ms', 'remaining_ttl_ms']),
    );
    const denied = expectStatus(await on.holdfast.reserve(tenant, 11, { dry_run: true }), 200);
    expect(denied).toEqual({
      decision: 'DENY',
      reason_code: 'BUDGET_EXCEEDED',
      affected_scopes: [`tenant:${tenant.id}`],
      scope_path: `tenant:${tenant.id}`,
    });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '10 0 0 0' });
  });
});
