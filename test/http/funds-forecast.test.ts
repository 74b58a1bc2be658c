import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { reservationKey } from '../../src/redis/keyspace.js';
import { type Answer, expectRefusal, expectStatus, newKey, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

// A forecast reads the first deadlines of a partition, so reservations of other files would interfere.
const on = useGovernance();

const ASKS = { 'x-holdfast-explain': 'true' };

function reserve(
  tenant: TestTenant,
  amount: bigint | number,
  more: Record<string, unknown> = {},
  headers: Record<string, string> = ASKS,
): Promise<Answer> {
  const body = {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: { kind: 'llm.completion', name: 'gpt' },
    estimate: { unit: 'TOKENS', amount },
    grace_period_ms: 0,
    ...more,
  };
  return on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body, headers });
}

async function hold(tenant: TestTenant, amount: number, ttlMs: number, more = {}): Promise<string> {
  return expectStatus(await reserve(tenant, amount, { ttl_ms: ttlMs, ...more }), 200)
    .reservation_id as string;
}

describe('a refusal for lack of budget', () => {
  test('names what is short, the holds that end first, and the instant from which a retry succeeds', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    await hold(tenant, 50, 600_000);
    await hold(tenant, 10, 4000);
    await hold(tenant, 30, 4100);
    const body = { idempotency_key: newKey() };
    const answer = await reserve(tenant, 45, body);
    const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({
      scope: `tenant:${tenant.id}`,
      unit: 'TOKENS',
      remaining: 10,
      requested: 45,
      short_by: 35,
      holds_ending_first: [{ amount: 10 }, { amount: 30 }, { amount: 50 }],
    });
    expect(details).not.toHaveProperty('retry_unknown');
    const retryAfterMs = details.retry_after_ms as number;
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(4101);
    expect(answer.headers.get('retry-after')).toBe(String(Math.ceil(retryAfterMs / 1000)));
    expect(await on.holdfast.metric('holdfast_funds_forecasts_total', { result: 'known' })).toBeGreaterThan(
      0,
    );
    await delay(retryAfterMs);
    expectStatus(await reserve(tenant, 45, body), 200);
  });

  test.each([
    ['a period that ends first', { ttl: 600_000, policy: 'NONE', amount: 35 }, [1, 300_000]],
    ['a hold that ends first', { ttl: 120_000, policy: 'NONE', amount: 45 }, [1, 120_001]],
    ['funds that are carried over', { ttl: 600_000, policy: 'CARRY_FORWARD', amount: 105 }, [1, 300_000]],
    ['a hold and then a period', { ttl: 200_000, policy: 'NONE', amount: 100 }, [200_001, 300_000]],
    ['a period and then a hold', { ttl: 400_000, policy: 'NONE', amount: 100 }, [300_001, 400_001]],
  ] as const)('counts the next period of a budget: %s', async (_, { ttl, policy, amount }, [least, most]) => {
    const tenant = await on.holdfast.createTenant();
    const end = new Date(Date.now() + 300_000).toISOString();
    await on.holdfast.createBudget(tenant, '', 100, { period_end: end, rollover_policy: policy });
    expectStatus(await on.holdfast.commit(tenant, await hold(tenant, 30, 60_000), 30), 200);
    await hold(tenant, 60, ttl);
    const { details } = expectRefusal(await reserve(tenant, amount), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ remaining: 10, holds_ending_first: [{ amount: 60 }] });
    expect(details.retry_after_ms).toBeGreaterThanOrEqual(least);
    expect(details.retry_after_ms).toBeLessThanOrEqual(most);
  });

  test('says that the budget needs funds where not even its next period is enough', async () => {
    const tenant = await on.holdfast.createTenant();
    const end = new Date(Date.now() + 300_000).toISOString();
    await on.holdfast.createBudget(tenant, '', 100, { period_end: end });
    const { details } = expectRefusal(await reserve(tenant, 101), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ retry_unknown: 'FUNDING_REQUIRED' });
  });

  test('has no explanation for a client that does not ask for one', async () => {
    const tenant = await on.holdfast.fundedTenant(10);
    for (const headers of [{}, { 'x-holdfast-explain': 'false' }]) {
      const answer = await reserve(tenant, 11, {}, headers);
      const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
      expect(Object.keys(details as object).sort()).toEqual(['deny_detail', 'scope']);
      expect(answer.headers.get('retry-after')).toBeNull();
    }
  });

  test('waits for the last of several scopes', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    await on.holdfast.createBudget(tenant, '/workspace:prod', 50);
    const inProd = { subject: { tenant: tenant.id, workspace: 'prod' } };
    await hold(tenant, 60, 300_000);
    await hold(tenant, 20, 600_000, inProd);
    const { details } = expectRefusal(await reserve(tenant, 40, inProd), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ scope: `tenant:${tenant.id}`, remaining: 20, short_by: 20 });
    expect(details.holds_ending_first).toHaveLength(2);
    expect(details.retry_after_ms).toBeGreaterThan(300_000);
    expect(details.retry_after_ms).toBeLessThanOrEqual(600_001);
  });

  test('shows a confined key no hold outside its scope filter', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    await on.holdfast.createBudget(tenant, '/workspace:prod', 60);
    const key = await on.holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod'] });
    const confined = { id: tenant.id, key };
    const inProd = { subject: { tenant: tenant.id, workspace: 'prod' } };
    const subject = { tenant: tenant.id, workspace: 'dev' };
    await hold(tenant, 55, 300_000, { subject });
    await hold(tenant, 40, 300_000, inProd);
    const outside = await reserve(confined, 20, inProd);
    const { details } = expectRefusal(outside, 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({
      scope: `tenant:${tenant.id}`,
      remaining: 5,
      holds_ending_first: [],
      retry_unknown: 'OUTSIDE_SCOPE_FILTER',
    });
    expect(details).not.toHaveProperty('retry_after_ms');
    expect(outside.headers.get('retry-after')).toBeNull();
    const query = `scope=tenant:${tenant.id}&unit=TOKENS&tenant_id=${tenant.id}`;
    const credit = {
      operation: 'CREDIT',
      amount: { unit: 'TOKENS', amount: 100 },
      idempotency_key: newKey(),
    };
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/fund?${query}`, credit), 200);
    const inside = expectRefusal(await reserve(confined, 30, inProd), 409, 'BUDGET_EXCEEDED').details;
    expect(inside).toMatchObject({ scope: `tenant:${tenant.id}/workspace:prod`, remaining: 20 });
    expect(inside.holds_ending_first).toMatchObject([{ amount: 40 }]);
    expect(inside.retry_after_ms).toBeGreaterThan(0);
  });

  test('lists at most five holds, of this tenant and unit only', async () => {
    const tenant = await on.holdfast.fundedTenant(70);
    await on.holdfast.createBudget(tenant, '', 10, { unit: 'CREDITS' });
    await hold(tenant, 10, 100_000, { estimate: { unit: 'CREDITS', amount: 10 } });
    for (let i = 0; i < 7; i += 1) {
      await hold(tenant, 10, 600_000 + i);
    }
    const { details } = expectRefusal(await reserve(tenant, 70), 409, 'BUDGET_EXCEEDED');
    expect(details.holds_ending_first).toHaveLength(5);
    expect(details.retry_after_ms).toBeGreaterThan(100_000);
  });

  test.each([
    ['nothing is held', 10, 11, 'FUNDING_REQUIRED'],
    ['not even everything held is enough', 10, 21, 'FUNDING_REQUIRED'],
  ])('says that the budget needs funds where %s', async (_, held, amount, unknown) => {
    const tenant = await on.holdfast.fundedTenant(10);
    if (amount > 11) {
      await hold(tenant, held, 600_000);
    }
    const answer = await reserve(tenant, amount);
    const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ retry_unknown: unknown });
    expect(details).not.toHaveProperty('retry_after_ms');
    expect(answer.headers.get('retry-after')).toBeNull();
    expect(await on.holdfast.metric('holdfast_funds_forecasts_total', { result: 'unknown' })).toBeGreaterThan(
      0,
    );
  });

  test('does not promise what only a cleanup returns', async () => {
    const tenant = await on.holdfast.fundedTenant(10, { reservation_expiry_policy: 'MANUAL_CLEANUP' });
    await hold(tenant, 10, 1000);
    const { details } = expectRefusal(await reserve(tenant, 10), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ holds_ending_first: [], retry_unknown: 'FUNDING_REQUIRED' });
  });

  test('says that it cannot tell if too many holds end first', async () => {
    const tenant = await on.holdfast.fundedTenant(60);
    await Promise.all(Array.from({ length: 50 }, () => hold(tenant, 1, 300_000)));
    await hold(tenant, 10, 600_000);
    const { details } = expectRefusal(await reserve(tenant, 60), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ retry_unknown: 'TOO_MANY_HOLDS' });
  });

  test('skips a damaged record', async () => {
    const tenant = await on.holdfast.fundedTenant(20);
    const damaged = await hold(tenant, 5, 300_000);
    await hold(tenant, 15, 600_000);
    await on.stored.redis.hset(reservationKey(on.stored.tagOf(tenant.id), damaged), 'am', 'junk');
    const { details } = expectRefusal(await reserve(tenant, 15), 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({ holds_ending_first: [{ amount: 15 }], short_by: 15 });
    expect(details.retry_after_ms).toBeGreaterThan(300_000);
  });

  test('is exact beyond 2^53', async () => {
    const tenant = await on.holdfast.fundedTenant(9_000_000_000_000_000_001n);
    await reserve(tenant, 9_000_000_000_000_000_000n, { ttl_ms: 600_000 });
    const { details } = expectRefusal(
      await reserve(tenant, 9_000_000_000_000_000_001n),
      409,
      'BUDGET_EXCEEDED',
    );
    expect(details).toMatchObject({
      remaining: 1,
      requested: 9_000_000_000_000_000_001n,
      short_by: 9_000_000_000_000_000_000n,
      holds_ending_first: [{ amount: 9_000_000_000_000_000_000n }],
    });
  });

  test('of a commit under REJECT says that waiting does not help', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const id = await hold(tenant, 40, 600_000, { overage_policy: 'REJECT' });
    await hold(tenant, 60, 300_000);
    const answer = await on.holdfast.call('POST', `/v1/reservations/${id}/commit`, {
      key: tenant.key,
      body: { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 90 } },
      headers: ASKS,
    });
    const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({
      remaining: 0,
      requested: 50,
      short_by: 50,
      holds_ending_first: [{ amount: 60 }],
      retry_unknown: 'OVERAGE_REJECTED',
    });
    expect(details).not.toHaveProperty('retry_after_ms');
    expect(answer.headers.get('retry-after')).toBeNull();
  });

  test('is explained for a direct debit', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    await hold(tenant, 90, 300_000);
    const body = {
      idempotency_key: newKey(),
      subject: { tenant: tenant.id },
      action: { kind: 'llm.completion', name: 'gpt' },
      actual: { unit: 'TOKENS', amount: 20 },
      overage_policy: 'REJECT',
    };
    const answer = await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body, headers: ASKS });
    const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(details).toMatchObject({
      remaining: 10,
      requested: 20,
      short_by: 10,
      holds_ending_first: [{ amount: 90 }],
    });
  });

  test('with debt asks for funds, because debt does not end by itself', async () => {
    const tenant = await on.holdfast.fundedTenant(
      10,
      {},
      { overdraft_limit: { unit: 'TOKENS', amount: 100 } },
    );
    const id = await hold(tenant, 10, 600_000, { overage_policy: 'ALLOW_WITH_OVERDRAFT' });
    expectStatus(await on.holdfast.commit(tenant, id, 30), 200);
    const budget = `/v1/admin/budgets?scope=tenant:${tenant.id}&unit=TOKENS`;
    expectStatus(
      await on.holdfast.admin('PATCH', budget, { overdraft_limit: { unit: 'TOKENS', amount: 0 } }),
      200,
    );
    const { details } = expectRefusal(await reserve(tenant, 5), 409, 'DEBT_OUTSTANDING');
    expect(details).toMatchObject({ remaining: -20, short_by: 25, retry_unknown: 'FUNDING_REQUIRED' });
    expect(details).not.toHaveProperty('retry_after_ms');
  });

  test('cannot be requested by a header that is neither true nor false, and nothing is held', async () => {
    const tenant = await on.holdfast.fundedTenant(10);
    const answer = await reserve(tenant, 1, {}, { 'x-holdfast-explain': 'yes' });
    expectRefusal(answer, 400, 'INVALID_REQUEST');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '10 0 0 0' });
  });
});
