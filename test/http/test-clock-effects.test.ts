import { expect, test } from '@jest/globals';
import { reservationKey, waitersKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { damageHold } from '../support/hold-record.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import {
  DAY_MS,
  eventsOf,
  expectSound,
  HOUR_MS,
  MINUTE_MS,
  stateOf,
  TestClock,
  timeOf,
} from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCK: 'true', IDEMPOTENCY_TTL_MS: String(DAY_MS) });
const clock = new TestClock(() => on.holdfast);

/** Lets the clock go to just after the next multiple of a time. @returns the multiple */
async function toNext(ms: number): Promise<number> {
  const next = (Math.floor((await clock.nowMs()) / ms) + 1) * ms;
  await clock.advanceTo(next);
  return next;
}

async function policy(tenant: TestTenant, rules: Json): Promise<void> {
  const body = { name: newKey(), scope_pattern: `tenant:${tenant.id}`, ...rules };
  expectStatus(await on.holdfast.call('POST', '/v1/admin/policies', { key: tenant.key, body }), 201);
}

function act(tenant: TestTenant, run?: string): Promise<Answer> {
  const dimensions = run === undefined ? {} : { dimensions: { run_id: run } };
  const subject = { tenant: tenant.id, ...dimensions };
  const more = { subject, action: { kind: 'db.write', name: 'x' }, ttl_ms: 4 * HOUR_MS };
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
  const midnight = await toNext(DAY_MS);
  for (const expected of [200, 200, 409]) {
    expectStatus(await act(tenant), expected);
  }
  await toNext(HOUR_MS);
  for (const expected of [200, 409]) {
    expectStatus(await act(tenant), expected);
  }
  const [daily] = (await counters(tenant)).filter(({ window }) => window === 'per_day_tumbling');
  expect(daily).toMatchObject({ window_key: timeOf(midnight).slice(0, 10), used: 3 });
  await toNext(DAY_MS);
  expectStatus(await act(tenant), 200);
  const [next] = (await counters(tenant)).filter(({ window }) => window === 'per_day_tumbling');
  expect(next).toMatchObject({ window_key: timeOf(midnight + DAY_MS).slice(0, 10), used: 1 });
});

test('counters of a run start anew once it has lapsed by the clock', async () => {
  const tenant = await clock.tenant(1000);
  const quota = {
    action_kind: 'db.write',
    max_calls: 2,
    window: 'per_run',
    per_run_counter_ttl_ms: HOUR_MS,
  };
  await policy(tenant, { action_quotas: [quota] });
  for (const expected of [200, 200, 409]) {
    expectStatus(await act(tenant, 'a'), expected);
  }
  await clock.advanceBy(HOUR_MS - MINUTE_MS);
  expectStatus(await act(tenant, 'a'), 409);
  await clock.advanceBy(2 * HOUR_MS);
  for (const expected of [200, 200, 409]) {
    expectStatus(await act(tenant, 'a'), expected);
  }
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
  await toNext(DAY_MS);
  await spend();
  expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_EXCEEDED');
  for (const days of [1, 100]) {
    await clock.advanceBy(days * DAY_MS);
    await spend();
    expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_EXCEEDED');
    await expectSound(on.holdfast, tenant);
  }
});

test('a policy is in effect by the clock', async () => {
  const tenant = await clock.tenant(1000);
  const nowMs = await clock.nowMs();
  const denied = { denied_action_kinds: ['db.write'] };
  const [from, until] = [nowMs + HOUR_MS, nowMs + 2 * HOUR_MS];
  await policy(tenant, { ...denied, effective_from: timeOf(from), effective_until: timeOf(until) });
  for (const [ms, expected] of [
    [from - MINUTE_MS, 200],
    [from, 409],
    [until, 200],
  ] as const) {
    await clock.advanceTo(ms);
    expectStatus(await act(tenant), expected);
  }
});

test('a repeated request gets the first response, however far the clock has gone', async () => {
  const tenant = await clock.tenant(1000);
  const body = reserveBody(tenant, 1, { ttl_ms: HOUR_MS, grace_period_ms: 0 });
  const ask = async (): Promise<Json> =>
    expectStatus(await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body }), 200);
  const first = await ask();
  await clock.advanceBy(2 * DAY_MS);
  expect((await ask()).reservation_id).toBe(first.reservation_id);
  await expectSound(on.holdfast, tenant);
});

test('a hold under MANUAL_CLEANUP waits for its cleanup by the clock', async () => {
  const tenant = await clock.tenant(10, { reservation_expiry_policy: 'MANUAL_CLEANUP' });
  const { reservation_id: id } = await clock.hold(tenant, HOUR_MS);
  const cleanUp = async (): Promise<Json> => {
    const body = { all_tenants: true };
    return expectStatus(await on.holdfast.admin('POST', '/ops/reservations/cleanup', body), 200).reservations;
  };
  await clock.advanceBy(HOUR_MS - MINUTE_MS);
  expect(await cleanUp()).toEqual([]);
  await clock.advanceBy(HOUR_MS);
  expect(await stateOf(on.holdfast, id as string)).toBe('ACTIVE');
  expectRefusal(await on.holdfast.commit(tenant, id as string, 1), 410, 'RESERVATION_EXPIRED');
  expect(await cleanUp()).toEqual([expect.objectContaining({ reservation_id: id, outcome: 'EXPIRED' })]);
  await expectSound(on.holdfast, tenant);
});

test('a refusal says when holds end by the clock', async () => {
  const tenant = await clock.tenant(1);
  await clock.advanceBy(DAY_MS);
  const held = await clock.hold(tenant, HOUR_MS);
  const refused = await on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, 1),
    headers: { 'x-holdfast-explain': 'true' },
    extended: true,
  });
  const { details } = expectRefusal(refused, 409, 'BUDGET_EXCEEDED');
  expect(details.holds_ending_first).toEqual([
    expect.objectContaining({ amount: 1, ends_at_ms: Number(held.expires_at_ms) }),
  ]);
  await clock.advanceBy(Number(details.retry_after_ms));
  expectStatus(await on.holdfast.reserve(tenant, 1), 200);
});

test('a reserve that waits for funds gets those that an advance frees', async () => {
  const tenant = await clock.tenant(1);
  const held = await clock.hold(tenant, HOUR_MS);
  const waiting = on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, 1, { ttl_ms: HOUR_MS }),
    headers: { 'x-holdfast-wait-ms': '20000' },
  });
  const places = waitersKey(on.stored.tagOf(tenant.id), tenant.id);
  await eventually('it waits', async () => (await on.stored.redis.zcard(places)) === 1);
  const untilMs = Number(held.expires_at_ms) + HOUR_MS;
  await clock.advanceTo(untilMs);
  expect(Number(expectStatus(await waiting, 200).expires_at_ms)).toBeGreaterThan(Number(held.expires_at_ms));
  expect(timeOf(untilMs) <= ((await clock.read()).now as string)).toBe(true);
});

test('a damaged hold is quarantined when it is due, and the advance ends', async () => {
  const tenant = await clock.tenant(10);
  const held = await clock.hold(tenant, HOUR_MS);
  const key = reservationKey(on.stored.tagOf(tenant.id), held.reservation_id as string);
  await damageHold(on.stored.redis, key, 'am', 'many');
  expect(await clock.advanceBy(2 * HOUR_MS)).toMatchObject({ status: 'READY' });
  const [told] = await eventsOf(on.holdfast, tenant, 'custom.reservation.quarantined');
  expect(told?.timestamp).toBe(timeOf(Number(held.expires_at_ms) + 1));
});
