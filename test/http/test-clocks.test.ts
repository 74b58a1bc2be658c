import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { partitionOfTenant, tenantKey, testClockKey } from '../../src/redis/keyspace.js';
import { expectRefusal, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { DAY_MS, eventsOf, expectSound, HOUR_MS, stateOf, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const SETTINGS = { HOLDFAST_TEST_CLOCKS: 'true' };
const on = useGovernance({}, SETTINGS);
const { at, msAt } = TestClock;
let other: Holdfast;
let clock: TestClock;
beforeAll(async () => {
  other = await Holdfast.start({ REDIS_URL: on.redis.url, ...SETTINGS });
});
beforeEach(async () => {
  clock = await TestClock.create(on.holdfast);
});
afterAll(() => other.stop());

const state = (id: string): Promise<string> => stateOf(on.holdfast, id);
const events = (tenant: TestTenant, ...types: string[]): Promise<Json[]> =>
  eventsOf(on.holdfast, tenant, ...types);
const sound = (tenant: TestTenant): Promise<void> => expectSound(on.holdfast, tenant);
const sweep = () => on.holdfast.app.get(ExpiryService, { strict: false }).sweep();
const balance = async (tenant: TestTenant): Promise<string | undefined> =>
  (await on.holdfast.balances(tenant))[`tenant:${tenant.id}`];

describe('a tenant with a test clock', () => {
  test('lives through months of daily rollovers and of holds that expire in two calls', async () => {
    const tenant = await clock.tenant(1000);
    const query = `scope=tenant:${tenant.id}&unit=TOKENS`;
    const rule = { every: 'day', time_zone: 'UTC', rollover_policy: 'CARRY_FORWARD' };
    const put = await on.holdfast.admin('PUT', `/ops/budgets/recurrence?${query}`, rule);
    expect(expectStatus(put, 200).period_end).toBe(at(DAY_MS / 2));
    const ttls = [20 * HOUR_MS, HOUR_MS, 13 * HOUR_MS, HOUR_MS];
    const holds = await Promise.all(ttls.map((ttlMs) => clock.hold(tenant, ttlMs)));
    expect(holds.map((hold) => Number(hold.expires_at_ms))).toEqual(ttls.map((ttlMs) => msAt(ttlMs)));
    expect(await clock.advance(31 * DAY_MS)).toMatchObject({
      status: 'READY',
      now: at(31 * DAY_MS),
      tenants: [tenant.id],
    });
    const midnights = Array.from({ length: 31 }, (_, day) => at(DAY_MS / 2 + day * DAY_MS));
    const ends = [HOUR_MS, HOUR_MS, 13 * HOUR_MS, 20 * HOUR_MS].map((ms) => at(ms + 1));
    const told = await events(tenant, 'reservation.expired', 'budget.reset_spent');
    expect(told.map(({ timestamp }) => timestamp as string)).toEqual([...midnights, ...ends].sort());
    expect(await balance(tenant)).toBe('32000 0 0 0');
    const path = `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=rollOverBudget&limit=100`;
    const rows = expectStatus(await on.holdfast.admin('GET', path), 200).logs as Json[];
    expect(rows.map(({ timestamp }) => timestamp as string).sort()).toEqual(midnights);
    await sound(tenant);

    // Further than boundaries are planned ahead.
    await clock.advance(150 * DAY_MS);
    expect(await events(tenant, 'budget.reset_spent')).toHaveLength(150);
    expect(await balance(tenant)).toBe('151000 0 0 0');
    await sound(tenant);
  });

  test("keeps a hold until its deadline has passed by the clock, whatever Redis' clock says", async () => {
    const tenant = await clock.tenant(10);
    const { reservation_id: id } = await clock.hold(tenant, 60_000, { grace_period_ms: 5000 });
    expect(await sweep()).toMatchObject({ judged: 0, failed: 0 });
    expect(await state(id)).toBe('ACTIVE');
    await clock.advance(65_000);
    await sweep();
    expect(await state(id)).toBe('ACTIVE');
    expect(await balance(tenant)).toBe('9 1 0 0');
    const path = `/ops/budgets/holds?scope=tenant:${tenant.id}&unit=TOKENS`;
    const { holds } = expectStatus(await on.holdfast.admin('GET', path), 200);
    expect(holds).toEqual([expect.objectContaining({ reservation_id: id, reclaim_at_ms: msAt(65_000) })]);
    await clock.advance(65_001);
    expect(await state(id)).toBe('EXPIRED');
    expectRefusal(await on.holdfast.commit(tenant, id, 1), 410, 'RESERVATION_EXPIRED');
    expect(await balance(tenant)).toBe('10 0 0 0');
    expect(await events(tenant, 'reservation.expired')).toHaveLength(1);
    expect(await on.holdfast.metric('holdfast_expiry_outcomes_total', { source: 'clock' })).toBeGreaterThan(
      0,
    );
    await sound(tenant);
  });

  test('extends, commits and releases by the clock', async () => {
    const tenant = await clock.tenant(10);
    const { reservation_id: id } = await clock.hold(tenant, 60_000);
    const { reservation_id: unused } = await clock.hold(tenant, 60_000);
    await clock.advance(50_000);
    const extended = await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 30_000 });
    expect(Number(expectStatus(extended, 200).expires_at_ms)).toBe(msAt(90_000));
    expectStatus(await on.holdfast.settle(tenant, 'release', unused), 200);
    await clock.advance(80_000);
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
    const ends = await Promise.all(
      [unused, id].map(async (one) => {
        const { end } = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${one}`), 200);
        return Number(end.at_ms);
      }),
    );
    expect(ends).toEqual([msAt(50_000), msAt(80_000)]);
    await clock.advance(DAY_MS);
    expect(await events(tenant, 'reservation.expired')).toHaveLength(0);
    await sound(tenant);
  });

  test('leaves the holds, events and figures of other tenants alone', async () => {
    const tenant = await clock.tenant(10);
    const neighbour = await neighbourOf(tenant);
    const end = new Date(Date.now() + DAY_MS).toISOString();
    await on.holdfast.createBudget(neighbour, '', 10, { period_end: end });
    const mine = await clock.hold(tenant, HOUR_MS);
    const theirs = await clock.hold(neighbour, HOUR_MS);
    const [figures, told] = [await on.holdfast.balances(neighbour), await events(neighbour)];
    await clock.advance(366 * DAY_MS);
    expect(await state(mine.reservation_id)).toBe('EXPIRED');
    expect(await state(theirs.reservation_id)).toBe('ACTIVE');
    expect(await on.holdfast.balances(neighbour)).toEqual(figures);
    expect(await events(neighbour)).toEqual(told);
    await sound(neighbour);
    await sound(tenant);
  });

  test('rolls over once, by the clock, even if two instances advance it and the job for idle budgets runs', async () => {
    const tenant = await clock.tenant(10);
    const period = { period_start: at(-DAY_MS), period_end: at(DAY_MS) };
    await on.holdfast.createBudget(tenant, '/app:a', 10, period);
    const job = on.holdfast.app.get(BudgetRollovers, { strict: false });
    await job.runTurn({ goesOn: () => true });
    expect(await events(tenant, 'budget.reset_spent')).toHaveLength(0);
    const path = `/v1/admin/budgets?tenant_id=${tenant.id}&scope_prefix=tenant:${tenant.id}/app:a`;
    const { ledgers } = expectStatus(await on.holdfast.admin('GET', path), 200);
    expect(ledgers).toEqual([expect.objectContaining(period)]);
    await Promise.all([clock.advance(DAY_MS), clock.advance(DAY_MS, other)]);
    expect(await events(tenant, 'budget.reset_spent')).toHaveLength(1);
    await sound(tenant);
  });

  test('expires each hold once, even if an advance was interrupted and two instances continue it', async () => {
    const tenant = await clock.tenant(1000);
    const ids: string[] = [];
    for (let number = 1; number <= 100; number += 1) {
      ids.push((await clock.hold(tenant, number * 1000)).reservation_id as string);
    }
    // The state that an instance leaves when it dies during an advance.
    const record = testClockKey(on.stored.tagOf('__system__'), clock.id);
    await on.stored.redis.hset(record, 'advancing_to', msAt(HOUR_MS));
    await on.stored.redis.hset(tenantKey(on.stored.tagOf(tenant.id), tenant.id), 'clock_now', msAt(40_000));
    expect(expectStatus(await on.holdfast.admin('GET', clock.path), 200)).toMatchObject({
      status: 'ADVANCING',
      now: at(0),
      advancing_to: at(HOUR_MS),
    });
    const back = await on.holdfast.admin('POST', `${clock.path}/advance`, { to: at(1) });
    expectRefusal(back, 400, 'INVALID_REQUEST');
    const late = await on.holdfast.admin('POST', `${clock.path}/tenants`, {
      tenant_id: 'late',
      name: 'late',
    });
    expectRefusal(late, 429, 'LIMIT_EXCEEDED');
    await Promise.all([clock.advance(HOUR_MS), clock.advance(HOUR_MS, other)]);
    expect(await clock.advance(HOUR_MS)).toMatchObject({ status: 'READY', now: at(HOUR_MS) });
    const told = await events(tenant, 'reservation.expired');
    expect(told.map(({ data }) => data.reservation_id as string).sort()).toEqual([...ids].sort());
    await sound(tenant);
  });
});

describe('test clocks', () => {
  test('only go forward, at most a year at a time, and are unknown by another id', async () => {
    const to = (instant: string) => on.holdfast.admin('POST', `${clock.path}/advance`, { to: instant });
    for (const instant of [at(-1), at(366 * DAY_MS + 1), '2201-01-01T00:00:00Z']) {
      expectRefusal(await to(instant), 400, 'INVALID_REQUEST');
    }
    expect(expectStatus(await to(at(0)), 200)).toMatchObject({ status: 'READY', now: at(0) });
    const unknown = `/ops/test-clocks/clk_${'0'.repeat(16)}`;
    expectRefusal(await on.holdfast.admin('GET', unknown), 404, 'NOT_FOUND');
    expectRefusal(await on.holdfast.admin('POST', `${unknown}/advance`, { to: at(0) }), 404, 'NOT_FOUND');
    expectRefusal(await on.holdfast.admin('DELETE', unknown), 404, 'NOT_FOUND');
  });

  test('are deleted once their tenants are closed', async () => {
    const tenant = await clock.tenant(10);
    const { reservation_id: id } = await clock.hold(tenant, HOUR_MS);
    expectRefusal(await on.holdfast.admin('DELETE', clock.path), 400, 'INVALID_REQUEST');
    const closed = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' });
    expectStatus(closed, 200);
    expect(await state(id)).toBe('RELEASED');
    await sound(tenant);
    expectStatus(await on.holdfast.admin('DELETE', clock.path), 204);
    expectRefusal(await on.holdfast.admin('GET', clock.path), 404, 'NOT_FOUND');
    const { test_clocks: left } = expectStatus(await on.holdfast.admin('GET', '/ops/test-clocks'), 200);
    expect((left as Json[]).map((one) => one.clock_id as string)).not.toContain(clock.id);
  });

  test('accept no existing tenant, and each new one only once', async () => {
    const add = (body: Json) => on.holdfast.admin('POST', `${clock.path}/tenants`, body);
    const real = await on.holdfast.createTenant();
    expectRefusal(await add({ tenant_id: real.id, name: real.id }), 409, 'DUPLICATE_RESOURCE');
    const tenant = await clock.tenant(10);
    expectStatus(await add({ tenant_id: tenant.id, name: tenant.id }), 200);
    expectRefusal(await add({ tenant_id: tenant.id, name: 'another' }), 409, 'DUPLICATE_RESOURCE');
    expect(expectStatus(await on.holdfast.admin('GET', clock.path), 200).tenants).toEqual([tenant.id]);
  });

  test('do not exist without HOLDFAST_TEST_CLOCKS', async () => {
    const without = await Holdfast.start({ REDIS_URL: on.redis.url });
    try {
      for (const [method, path] of [
        ['GET', '/ops/test-clocks'],
        ['POST', '/ops/test-clocks'],
        ['GET', clock.path],
        ['POST', `${clock.path}/advance`],
      ] as const) {
        expectRefusal(await without.admin(method, path), 404, 'NOT_FOUND');
      }
    } finally {
      await without.stop();
    }
  });
});

/** A tenant without a clock in the same partition. */
async function neighbourOf(tenant: TestTenant): Promise<TestTenant> {
  const partition = partitionOfTenant(tenant.id, 64);
  for (let number = 0; ; number += 1) {
    const id = `neighbour-${number}`;
    if (partitionOfTenant(id, 64) === partition) {
      expectStatus(await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: id, name: id }), 201);
      return { id, key: await on.holdfast.createKey(id) };
    }
  }
}
