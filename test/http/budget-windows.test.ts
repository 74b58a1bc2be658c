import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { periodPlansKey, tagOfTenant } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const DAY_MS = 86_400_000;
const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
const DAY = { name: 'day', limit: tokens(40), every: 'day', time_zone: 'Europe/Berlin' };
const WEEK = { name: 'week', limit: tokens(100), every: 'week', time_zone: 'UTC', anchor_day: 1 };

const scopeOf = ({ id }: TestTenant): string => `tenant:${id}`;
const call = (tenant: TestTenant, method: 'GET' | 'PUT' | 'DELETE', body?: unknown): Promise<Answer> =>
  on.holdfast.admin(method, `/ops/budgets/windows?scope=${scopeOf(tenant)}&unit=TOKENS`, body);
const shown = async (tenant: TestTenant): Promise<Json[]> =>
  expectStatus(await call(tenant, 'GET'), 200).windows as Json[];

async function withWindows(...windows: unknown[]): Promise<TestTenant> {
  const tenant = await on.holdfast.fundedTenant(1000);
  expectStatus(await call(tenant, 'PUT', { windows }), 200);
  return tenant;
}

/** Makes the first window of the tenant's budget end at this instant. */
async function endAt(tenant: TestTenant, ms: number): Promise<void> {
  const key = on.stored.budgetKey(tenant.id);
  const [first = '', ...others] = String(await on.stored.redis.hget(key, 'windows')).split(' ');
  const [name, limit, spent] = first.split(',');
  const moved = [name, limit, spent, ms - DAY_MS, ms].join();
  await on.stored.redis.hset(key, 'windows', [moved, ...others].join(' '));
}

test('a window gives its time zone back as it was given', async () => {
  const tenant = await withWindows({ ...DAY, time_zone: 'Asia/Kolkata' });
  expect(await shown(tenant)).toMatchObject([{ time_zone: 'Asia/Kolkata' }]);
});

async function spend(tenant: TestTenant, amount: number): Promise<void> {
  const id = await on.holdfast.hold(tenant, amount);
  expectStatus(await on.holdfast.commit(tenant, id, amount), 200);
}

const asking = (
  tenant: TestTenant,
  amount: number,
  headers: Record<string, string>,
  more = {},
): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, amount, { grace_period_ms: 0, ...more }),
    headers,
  });
const explained = (tenant: TestTenant, amount: number): Promise<Answer> =>
  asking(tenant, amount, { 'x-holdfast-explain': 'true' });

describe('the windows of a budget', () => {
  test('show their limits and what is used of them, and can be ended', async () => {
    const tenant = await withWindows(DAY, WEEK);
    await spend(tenant, 30);
    expectStatus(await on.holdfast.reserve(tenant, 7), 200);
    const [day = {}, week = {}] = await shown(tenant);
    expect(day).toMatchObject({ ...DAY, spent: tokens(30), remaining: tokens(3) });
    expect(week).toMatchObject({ ...WEEK, spent: tokens(30), remaining: tokens(63) });
    expect(day.next_boundaries).toHaveLength(5);
    expect(day.ends_at).toBe((day.next_boundaries as string[])[0]);
    expect(expectStatus(await call(tenant, 'DELETE'), 200)).toEqual({
      scope: scopeOf(tenant),
      unit: 'TOKENS',
      windows: [],
    });
    expectStatus(await on.holdfast.reserve(tenant, 500), 200);
  });

  test.each([
    [[DAY, { ...WEEK, name: 'day' }], 'windows'],
    [[], 'windows'],
    [[1, 2, 3, 4, 5].map((number) => ({ ...DAY, name: `day${number}` })), 'windows'],
    [[{ ...DAY, name: 'a day' }], 'name'],
    [[{ ...DAY, limit: tokens(-1) }], 'limit'],
    [[{ ...DAY, every: 'minute' }], 'every'],
    [[{ ...DAY, every: 'hour', length_hours: 24 }], 'length_hours'],
    [[{ ...DAY, every: 'hour', anchor_hour: 1 }], 'windows[0].anchor_hour'],
    [[DAY, { ...WEEK, anchor_day: 8 }], 'windows[1].anchor_day'],
  ])('are refused as %j, naming %s', async (windows, field) => {
    const tenant = await withWindows(DAY);
    const refusal = expectRefusal(await call(tenant, 'PUT', { windows }), 400, 'INVALID_REQUEST');
    expect(refusal.message + JSON.stringify(refusal.details)).toContain(field);
    expect(await shown(tenant)).toMatchObject([DAY]);
  });

  test('of some hours begin with the day and at each so many hours by its clock', async () => {
    const shift = {
      name: 'shift',
      limit: tokens(20),
      every: 'hour',
      length_hours: 8,
      time_zone: 'Asia/Kolkata',
    };
    const tenant = await withWindows(shift, { ...DAY, anchor_hour: 5 });
    await spend(tenant, 15);
    const { details } = expectRefusal(await explained(tenant, 6), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ window: 'shift', remaining: 5 });
    const [hours = {}, day = {}] = await shown(tenant);
    expect(hours).toMatchObject({ ...shift, spent: tokens(15), remaining: tokens(5) });
    const clocks = (hours.next_boundaries as string[]).map((at) =>
      new Date(Date.parse(at) + 5.5 * 3_600_000).toISOString().slice(11, 16),
    );
    expect([...new Set(clocks)].sort()).toEqual(['00:00', '08:00', '16:00']);
    expect(day).toMatchObject({ anchor_hour: 5, limit: tokens(40) });
    await endAt(tenant, Date.now());
    expectStatus(await on.holdfast.reserve(tenant, 20), 200);
    expect((await shown(tenant))[0]).toMatchObject({
      spent: tokens(0),
      ends_at: (hours.next_boundaries as string[])[1],
    });
  });

  test('have limits in the unit of their budget, which must exist', async () => {
    const tenant = await withWindows(DAY);
    const other = { windows: [{ ...DAY, limit: { unit: 'CREDITS', amount: 1 } }] };
    expectRefusal(await call(tenant, 'PUT', other), 400, 'UNIT_MISMATCH');
    const absent = await on.holdfast.createTenant();
    expectRefusal(await call(absent, 'GET'), 404, 'BUDGET_NOT_FOUND');
    expectRefusal(await call(absent, 'PUT', { windows: [DAY] }), 404, 'BUDGET_NOT_FOUND');
  });

  test('refuse by name, and report when they end', async () => {
    const tenant = await withWindows(DAY, WEEK);
    await spend(tenant, 35);
    await endAt(tenant, Date.now() + 60_000);
    const answer = await explained(tenant, 10);
    const { details, message } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(message).toContain('window day');
    expect(details).toMatchObject({
      scope: scopeOf(tenant),
      window: 'day',
      remaining: 5,
      short_by: 5,
      deny_detail: {
        suggested_fix: `Wait for the end of window day of ${scopeOf(tenant)}, or raise its limit by at least 5 tokens`,
      },
    });
    expect(details.retry_after_ms).toBeGreaterThan(50_000);
    expect(details.retry_after_ms).toBeLessThanOrEqual(60_000);
    const never = expectRefusal(await explained(tenant, 101), 409, 'BUDGET_EXCEEDED').details;
    expect(never).toMatchObject({
      window: 'day',
      retry_unknown: 'FUNDING_REQUIRED',
      deny_detail: {
        suggested_fix: `Raise the limit of window day of ${scopeOf(tenant)}, which is 40 tokens and never has room for 101 tokens, by at least 96 tokens, or ask for less`,
      },
    });
    const plain = expectRefusal(await on.holdfast.reserve(tenant, 10), 409, 'BUDGET_EXCEEDED').details;
    expect(Object.keys(plain as object).sort()).toEqual(['deny_detail', 'scope', 'window']);
    const { estimate: actual, ...asked } = reserveBody(tenant, 10);
    const debit = { key: tenant.key, body: { ...asked, actual, overage_policy: 'REJECT' } };
    expectRefusal(await on.holdfast.call('POST', '/v1/events', debit), 409, 'BUDGET_EXCEEDED');
    for (const type of ['reservation.denied', 'custom.direct_debit.denied']) {
      const page = await on.holdfast.admin(
        'GET',
        `/v1/admin/events?tenant_id=${tenant.id}&event_type=${type}&limit=1`,
      );
      expect(expectStatus(page, 200).events).toEqual([
        expect.objectContaining({ data: expect.objectContaining({ window: 'day', remaining: 5 }) }),
      ]);
    }
  });

  test.each([
    ['a hold that ends first', 20_000, 15, [1, 20_001]],
    ['a window that ends first', 90_000, 15, [20_002, 60_000]],
    ['a window and then a hold', 90_000, 21, [60_001, 90_001]],
  ])('are considered in the time to retry at: %s', async (_, ttl, amount, [least, most]) => {
    const tenant = await withWindows(DAY);
    await spend(tenant, 10);
    expectStatus(await on.holdfast.reserve(tenant, 20, { ttl_ms: ttl, grace_period_ms: 0 }), 200);
    await endAt(tenant, Date.now() + 60_000);
    const { details } = expectRefusal(await explained(tenant, amount), 409, 'BUDGET_EXCEEDED');
    expect(details.retry_after_ms).toBeGreaterThanOrEqual(least as number);
    expect(details.retry_after_ms).toBeLessThanOrEqual(most as number);
  });

  test('let waiting reserves proceed when they turn over, which is counted', async () => {
    const tenant = await withWindows(DAY);
    await spend(tenant, 40);
    const before = await on.holdfast.metric('holdfast_budget_window_turns_total');
    const waiting = asking(tenant, 40, { 'x-holdfast-wait-ms': '20000' });
    await eventually('it waits', async () => (await on.holdfast.metric('holdfast_reserve_waiters')) > 0);
    await endAt(tenant, Date.now() + 100);
    await delay(100);
    expectStatus(await waiting, 200);
    expect(await shown(tenant)).toMatchObject([{ spent: tokens(0), remaining: tokens(0) }]);
    await eventually('the turn is counted', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await on.holdfast.metric('holdfast_budget_window_turns_total')) > before;
    });
  });

  test('get further boundaries before they run out', async () => {
    const tenant = await withWindows(DAY);
    const [tag, key] = [tagOfTenant(tenant.id, 64), on.stored.budgetKey(tenant.id)];
    await on.stored.redis.hset(key, 'window_plans', '');
    await endAt(tenant, Date.UTC(2026, 0, 1));
    await on.stored.redis.zadd(periodPlansKey(tag), 0, `${scopeOf(tenant)} TOKENS day`);
    await eventually('it is in its current window', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return Date.parse((await shown(tenant))[0]?.ends_at as string) > Date.now();
    });
    await spend(tenant, 5);
    expect((await shown(tenant))[0]).toMatchObject({ spent: tokens(5) });
    const left = String(await on.stored.redis.hget(key, 'window_plans')).split(',');
    expect(left.length).toBeGreaterThan(10);
  });
});

describe('a budget over its limit', () => {
  test('is open again in its next period, and the refusal of a reserve says so', async () => {
    const tenant = await on.holdfast.createTenant();
    const end = new Date(Date.now() + 300_000).toISOString();
    await on.holdfast.createBudget(tenant, '', 100, { period_end: end });
    const id = await on.holdfast.hold(tenant, 100);
    expectStatus(await on.holdfast.commit(tenant, id, 120), 200);
    const { details } = expectRefusal(await explained(tenant, 30), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expect(details).toMatchObject({ remaining: 0, short_by: 30 });
    expect(details.retry_after_ms).toBeGreaterThan(200_000);
    expect(details.retry_after_ms).toBeLessThanOrEqual(300_000);
    const more = expectRefusal(await explained(tenant, 101), 409, 'OVERDRAFT_LIMIT_EXCEEDED').details;
    expect(more).toMatchObject({ retry_unknown: 'FUNDING_REQUIRED' });
  });

  test('accepts a commit whose debt had no room as soon as a hold returns enough', async () => {
    const tenant = await on.holdfast.fundedTenant(100, {}, { overdraft_limit: tokens(20) });
    const more = { overage_policy: 'ALLOW_WITH_OVERDRAFT' };
    const id = await on.holdfast.hold(tenant, 50, more);
    expectStatus(await on.holdfast.reserve(tenant, 50, { ttl_ms: 60_000, grace_period_ms: 0 }), 200);
    const answer = await on.holdfast.call('POST', `/v1/reservations/${id}/commit`, {
      key: tenant.key,
      body: { idempotency_key: newKey(), actual: tokens(110) },
      headers: { 'x-holdfast-explain': 'true' },
    });
    const { details } = expectRefusal(answer, 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expect(details).toMatchObject({ remaining: 0, requested: 60, short_by: 60 });
    expect(details.retry_after_ms).toBeGreaterThan(50_000);
    expect(details.retry_after_ms).toBeLessThanOrEqual(60_001);
  });
});

describe('what a refusal suggests', () => {
  async function fixFor(tenant: TestTenant, amount: number, unit = 'TOKENS'): Promise<string> {
    const answer = await on.holdfast.reserve(tenant, amount, { estimate: { unit, amount } });
    const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    return details.deny_detail.suggested_fix as string;
  }

  test('is to wait for the next period only where that has room for the amount', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    const path = `/ops/budgets/recurrence?scope=${scopeOf(tenant)}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('PUT', path, { every: 'day', time_zone: 'UTC' }), 200);
    await spend(tenant, 900);
    expect(await fixFor(tenant, 200)).toBe(
      `Wait for the next period of ${scopeOf(tenant)}, or fund ${scopeOf(tenant)} by at least 100 tokens`,
    );
    expect(await fixFor(tenant, 1001)).toBe(`Fund ${scopeOf(tenant)} by at least 901 tokens`);
  });

  test('has amounts as people read them', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    expect(await fixFor(tenant, 1_234_567)).toBe(`Fund ${scopeOf(tenant)} by at least 1,233,567 tokens`);
    await on.holdfast.createBudget(tenant, '', 100, { unit: 'USD_MICROCENTS' });
    const fund = (amount: number): Promise<string> => fixFor(tenant, amount, 'USD_MICROCENTS');
    expect(await fund(123_450_000_100)).toBe(`Fund ${scopeOf(tenant)} by at least $1,234.50`);
    expect(await fund(101)).toBe(`Fund ${scopeOf(tenant)} by at least $0.00000001`);
  });
});

test('the thresholds of a budget are the usual ones, and a budget that does not exist has none', async () => {
  const [tenant, absent] = [await on.holdfast.fundedTenant(1000), await on.holdfast.createTenant()];
  const ask = (of: TestTenant): Promise<Answer> =>
    on.holdfast.admin('GET', `/ops/budgets/thresholds?scope=${scopeOf(of)}&unit=TOKENS`);
  expect(expectStatus(await ask(tenant), 200)).toMatchObject({
    thresholds: [0.8, 0.95, 1],
    threshold_amounts: [],
  });
  expectRefusal(await ask(absent), 404, 'BUDGET_NOT_FOUND');
});
