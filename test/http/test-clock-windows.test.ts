import { beforeEach, expect, test } from '@jest/globals';
import { tenantKey, waitersKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { DAY_MS, eventsOf, expectSound, HOUR_MS, stateOf, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCKS: 'true', IDEMPOTENCY_TTL_MS: String(DAY_MS) });
const { at, msAt } = TestClock;
let clock: TestClock;
beforeEach(async () => {
  clock = await TestClock.create(on.holdfast);
});

async function policy(tenant: TestTenant, rules: Json): Promise<void> {
  const body = { name: newKey(), scope_pattern: `tenant:${tenant.id}`, ...rules };
  const made = await on.holdfast.call('POST', '/v1/admin/policies', { key: tenant.key, body });
  expectStatus(made, 201);
}

function act(tenant: TestTenant, run?: string): Promise<Answer> {
  const dimensions = run === undefined ? {} : { dimensions: { run_id: run } };
  const more = { subject: { tenant: tenant.id, ...dimensions }, action: { kind: 'db.write', name: 'x' } };
  const body = reserveBody(tenant, 1, more);
  return on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body, extended: true });
}

const counters = async (tenant: TestTenant): Promise<Json[]> =>
  expectStatus(await on.holdfast.call('GET', '/v1/admin/action-quota-counters', { key: tenant.key }), 200)
    .counters as Json[];

test('daily and hourly quotas start anew once the clock has reached the next day or hour', async () => {
  const tenant = await clock.tenant(1000);
  const quota = (window: string, calls: number): Json => ({
    action_kind: 'db.write',
    max_calls: calls,
    window,
  });
  await policy(tenant, { action_quotas: [quota('per_hour_tumbling', 2), quota('per_day_tumbling', 3)] });
  for (const expected of [200, 200, 409]) {
    expectStatus(await act(tenant), expected);
  }
  await clock.advance(HOUR_MS);
  for (const expected of [200, 409]) {
    expectStatus(await act(tenant), expected);
  }
  const [daily] = (await counters(tenant)).filter(({ window }) => window === 'per_day_tumbling');
  expect(daily).toMatchObject({ window_key: '2026-01-10', used: 3 });
  await clock.advance(DAY_MS / 2);
  expectStatus(await act(tenant), 200);
  const [next] = (await counters(tenant)).filter(({ window }) => window === 'per_day_tumbling');
  expect(next).toMatchObject({ window_key: '2026-01-11', used: 1 });
});

test('windows of a budget turn over when the clock has reached their end, however long ago they were planned', async () => {
  const tenant = await clock.tenant(1000);
  const path = `/ops/budgets/windows?scope=tenant:${tenant.id}&unit=TOKENS`;
  const day = { name: 'day', limit: { unit: 'TOKENS', amount: 1 }, every: 'day', time_zone: 'UTC' };
  expectStatus(await on.holdfast.admin('PUT', path, { windows: [day] }), 200);
  const spend = async (): Promise<void> => {
    const { reservation_id: id } = await clock.hold(tenant, HOUR_MS);
    expectStatus(await on.holdfast.commit(tenant, id as string, 1), 200);
  };
  await spend();
  expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_EXCEEDED');
  for (const days of [0.5, 100]) {
    await clock.advance(days * DAY_MS);
    await spend();
    expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_EXCEEDED');
    await expectSound(on.holdfast, tenant);
  }
});

test('a budget is shown in the period that the clock has reached, though it has not begun in real time', async () => {
  const future = await TestClock.create(on.holdfast, '2150-01-01T00:00:00Z');
  const tenant = await future.tenant(10);
  const period = { period_start: '2149-12-31T00:00:00Z', period_end: '2150-01-02T00:00:00Z' };
  await on.holdfast.createBudget(tenant, '/app:a', 10, period);
  const held = await on.holdfast.reserve(tenant, 4, { subject: { tenant: tenant.id, app: 'a' } });
  expectStatus(await on.holdfast.commit(tenant, expectStatus(held, 200).reservation_id as string, 4), 200);
  // As an instance leaves it when it dies while many budgets are due at this instant.
  const record = tenantKey(on.stored.tagOf(tenant.id), tenant.id);
  await on.stored.redis.hset(record, 'clock_now', Date.parse('2150-01-02T00:00:00Z'));
  const next = { period_start: '2150-01-02T00:00:00.000Z', period_end: '2150-01-04T00:00:00.000Z' };
  const path = `/v1/admin/budgets?tenant_id=${tenant.id}&scope_prefix=tenant:${tenant.id}/app:a`;
  const { ledgers } = expectStatus(await on.holdfast.admin('GET', path), 200);
  expect(ledgers).toEqual([expect.objectContaining(next)]);
  expect((await on.holdfast.balances(tenant))[`tenant:${tenant.id}/app:a`]).toBe('10 0 0 0');
});

test('a policy is in effect by the clock', async () => {
  const tenant = await clock.tenant(1000);
  const denied = { denied_action_kinds: ['db.write'] };
  await policy(tenant, { ...denied, effective_from: at(HOUR_MS), effective_until: at(2 * HOUR_MS) });
  for (const [ms, expected] of [
    [HOUR_MS - 1, 200],
    [HOUR_MS, 409],
    [2 * HOUR_MS, 200],
  ] as const) {
    await clock.advance(ms);
    expectStatus(await act(tenant), expected);
  }
});

test('a repeated request gets the first response until its record lapses by the clock', async () => {
  const tenant = await clock.tenant(1000);
  const body = reserveBody(tenant, 1, { ttl_ms: HOUR_MS, grace_period_ms: 0 });
  const ask = async (): Promise<Json> =>
    expectStatus(await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body }), 200);
  const first = await ask();
  const funding = {
    operation: 'CREDIT',
    amount: { unit: 'TOKENS', amount: 5 },
    idempotency_key: newKey(),
  };
  const fund = async (): Promise<Json> => {
    const path = `/v1/admin/budgets/fund?scope=tenant:${tenant.id}&unit=TOKENS`;
    return expectStatus(await on.holdfast.call('POST', path, { key: tenant.key, body: funding }), 200);
  };
  await fund();
  await clock.advance(DAY_MS - 1);
  expect((await ask()).reservation_id).toBe(first.reservation_id);
  await fund();
  expect((await on.holdfast.balances(tenant))[`tenant:${tenant.id}`]).toBe('1005 0 0 0');
  await clock.advance(DAY_MS);
  expect((await ask()).reservation_id).not.toBe(first.reservation_id);
  await fund();
  expect((await on.holdfast.balances(tenant))[`tenant:${tenant.id}`]).toBe('1009 1 0 0');
  await expectSound(on.holdfast, tenant);
});

test('a hold under MANUAL_CLEANUP waits for its cleanup by the clock', async () => {
  const tenant = await clock.tenant(10, { reservation_expiry_policy: 'MANUAL_CLEANUP' });
  const { reservation_id: id } = await clock.hold(tenant, HOUR_MS);
  const cleanUp = async (): Promise<Json> => {
    const body = { tenant_id: tenant.id };
    return expectStatus(await on.holdfast.admin('POST', '/ops/reservations/cleanup', body), 200).reservations;
  };
  await clock.advance(HOUR_MS);
  expect(await cleanUp()).toEqual([]);
  await clock.advance(2 * HOUR_MS);
  expect(await stateOf(on.holdfast, id)).toBe('ACTIVE');
  expectRefusal(await on.holdfast.commit(tenant, id, 1), 410, 'RESERVATION_EXPIRED');
  // A cleanup of all tenants uses real time.
  const general = await on.holdfast.admin('POST', '/ops/reservations/cleanup', { all_tenants: true });
  expect(expectStatus(general, 200).reservations).toEqual([]);
  expect(await cleanUp()).toEqual([expect.objectContaining({ reservation_id: id, outcome: 'EXPIRED' })]);
  const [told] = await eventsOf(on.holdfast, tenant, 'reservation.expired');
  expect(told.timestamp).toBe(at(2 * HOUR_MS));
  await expectSound(on.holdfast, tenant);
});

test('a refusal says when holds end and periods begin by the clock', async () => {
  const tenant = await clock.tenant(1);
  await clock.hold(tenant, HOUR_MS);
  const refused = await on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, 1),
    headers: { 'x-holdfast-explain': 'true' },
    extended: true,
  });
  const { details } = expectRefusal(refused, 409, 'BUDGET_EXCEEDED');
  expect(Number(details.retry_after_ms)).toBe(HOUR_MS + 1);
  expect(details.holds_ending_first).toEqual([
    expect.objectContaining({ amount: 1, ends_at_ms: msAt(HOUR_MS) }),
  ]);
});

test('a reserve that waits for funds gets those that an advance frees', async () => {
  const tenant = await clock.tenant(1);
  await clock.hold(tenant, HOUR_MS);
  const waiting = on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, 1, { ttl_ms: HOUR_MS }),
    headers: { 'x-holdfast-wait-ms': '20000' },
  });
  const places = waitersKey(on.stored.tagOf(tenant.id), tenant.id);
  await eventually('it waits', async () => (await on.stored.redis.zcard(places)) === 1);
  await clock.advance(2 * HOUR_MS);
  expect(Number(expectStatus(await waiting, 200).expires_at_ms)).toBe(msAt(3 * HOUR_MS));
});
