import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const MAX = 9223372036854775807n;

describe('funding', () => {
  const on = useGovernance();

  const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
  const lookUp = (tenant: TestTenant, scope = rootOf(tenant), unit = 'TOKENS'): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/admin/budgets/lookup?scope=${encodeURIComponent(scope)}&unit=${unit}`, {
      key: tenant.key,
    });
  const credit = (
    tenant: TestTenant,
    amount: bigint | number,
    more: Record<string, unknown> = {},
    query = '',
  ): Promise<Answer> =>
    on.holdfast.call('POST', `/v1/admin/budgets/fund?scope=${rootOf(tenant)}&unit=TOKENS${query}`, {
      key: tenant.key,
      body: { operation: 'CREDIT', amount: { unit: 'TOKENS', amount }, idempotency_key: newKey(), ...more },
    });

  test('adds to allocated and remaining, and the response has the figures of that very step', async () => {
    shows('fundBudget');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await on.holdfast.reserve(tenant, 30), 200);
    const body = expectStatus(await credit(tenant, 50, { reason: 'top-up' }), 200);
    const amount = (value: number): Json => ({ unit: 'TOKENS', amount: value });
    expect(body).toEqual({
      operation: 'CREDIT',
      previous_allocated: amount(100),
      new_allocated: amount(150),
      previous_remaining: amount(70),
      new_remaining: amount(120),
      previous_debt: amount(0),
      new_debt: amount(0),
      previous_spent: amount(0),
      new_spent: amount(0),
      timestamp: expect.stringMatching(/Z$/),
    });
    const event = (await on.stored.events(tenant.id)).at(-1);
    expect(event).toMatchObject({
      type: 'budget.funded',
      fields: {
        operation: 'CREDIT',
        previous_remaining: '70',
        new_remaining: '120',
        reason: 'top-up',
        ac: 'api_key',
        new_reserved: '30',
      },
    });
  });

  test('crosses thresholds, as any change of its use does', async () => {
    shows('threshold crossings');
    const tenant = await on.holdfast.fundedTenant();
    const { reservation_id } = expectStatus(await on.holdfast.reserve(tenant, 400), 200);
    expectStatus(await on.holdfast.commit(tenant, reservation_id, 400), 200);
    expectStatus(await credit(tenant, 450, { operation: 'RESET' }), 200);
    const page = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?tenant_id=${tenant.id}&event_type=budget.threshold_crossed`,
    );
    expect(expectStatus(page, 200).events).toEqual([
      expect.objectContaining({
        request_id: expect.any(String),
        data: {
          scope: rootOf(tenant),
          unit: 'TOKENS',
          threshold: 0.8,
          utilization: 0.8889,
          direction: 'rising',
          first_in_period: true,
          allocated: 450,
          remaining: 50,
          spent: 400,
          reserved: 0,
        },
      }),
    ]);
  });

  test('repays outstanding debt first, which becomes spent', async () => {
    shows('funding repays debt');
    const tenant = await on.holdfast.fundedTenant(
      100,
      {},
      { overdraft_limit: { unit: 'TOKENS', amount: 50 } },
    );
    const held = expectStatus(
      await on.holdfast.reserve(tenant, 100, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, held.reservation_id, 130), 200);
    const first = expectStatus(await credit(tenant, 20), 200);
    expect(first).toMatchObject({
      previous_debt: { amount: 30 },
      new_debt: { amount: 10 },
      previous_remaining: { amount: -30 },
      new_remaining: { amount: -10 },
    });
    const second = expectStatus(await credit(tenant, 100), 200);
    expect(second).toMatchObject({
      new_debt: { amount: 0 },
      new_remaining: { amount: 90 },
      new_spent: { amount: 130 },
      new_allocated: { amount: 220 },
    });
  });

  test('with the same key is done once and gets the same response, whatever happened meanwhile', async () => {
    shows('funding replay');
    const tenant = await on.holdfast.fundedTenant(100);
    const key = newKey();
    const first = await credit(tenant, 5, { idempotency_key: key });
    expectStatus(first, 200);
    expectStatus(await credit(tenant, 1), 200);
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    const again = await credit(tenant, 5, { idempotency_key: key });
    expect(again.text).toBe(first.text);
    expect(expectStatus(await lookUp(tenant), 200).allocated.amount).toBe(106);
    expect((await on.stored.events(tenant.id)).filter(({ type }) => type === 'budget.funded')).toHaveLength(
      2,
    );
  });

  test('with the same key and another payload is a mismatch', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const key = newKey();
    expectStatus(await credit(tenant, 5, { idempotency_key: key }), 200);
    expectRefusal(await credit(tenant, 6, { idempotency_key: key }), 409, 'IDEMPOTENCY_MISMATCH');
    expectRefusal(
      await credit(tenant, 5, { idempotency_key: key, reason: 'x' }),
      409,
      'IDEMPOTENCY_MISMATCH',
    );
  });

  test('with one key for two scopes, units or tenants is done for each', async () => {
    const [tenant, other] = [await on.holdfast.fundedTenant(100), await on.holdfast.fundedTenant(100)];
    await on.holdfast.createBudget(tenant, '/app:x', 100);
    const key = newKey();
    const body = { operation: 'CREDIT', amount: { unit: 'TOKENS', amount: 5 }, idempotency_key: key };
    for (const scope of [rootOf(tenant), `${rootOf(tenant)}/app:x`, rootOf(other)]) {
      const path = `/v1/admin/budgets/fund?scope=${scope}&unit=TOKENS&tenant_id=${scope.split(/[:/]/)[1]}`;
      expect(expectStatus(await on.holdfast.admin('POST', path, body), 200).new_allocated.amount).toBe(105);
    }
  });

  test('twenty times in parallel with one key is done once', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const key = newKey();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => credit(tenant, 5, { idempotency_key: key })),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(expectStatus(await lookUp(tenant), 200).allocated.amount).toBe(105);
  });

  test('without an idempotency key is done every time', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    for (const expected of [105, 110]) {
      expect(
        expectStatus(await credit(tenant, 5, { idempotency_key: undefined }), 200).new_allocated.amount,
      ).toBe(expected);
    }
  });

  test('reaches the largest int64 exactly, and is refused beyond it without a trace', async () => {
    const tenant = await on.holdfast.fundedTenant(MAX - 10n);
    expectRefusal(await credit(tenant, 11), 400, 'INVALID_REQUEST');
    expect(expectStatus(await credit(tenant, 10), 200).new_remaining.amount).toBe(MAX);
    expectRefusal(await credit(tenant, 1), 400, 'INVALID_REQUEST');
    expect(expectStatus(await lookUp(tenant), 200).remaining.amount).toBe(MAX);
    expect((await on.stored.events(tenant.id)).filter(({ type }) => type === 'budget.funded')).toHaveLength(
      1,
    );
  });

  test('on a frozen or closed budget, or a closed tenant, is refused', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const key = on.stored.budgetKey(tenant.id);
    await on.stored.redis.hset(key, 'status', 'FROZEN');
    expectRefusal(await credit(tenant, 1), 409, 'BUDGET_FROZEN');
    await on.stored.redis.hset(key, 'status', 'CLOSED');
    expectRefusal(await credit(tenant, 1), 409, 'BUDGET_CLOSED');
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectRefusal(await credit(tenant, 1), 409, 'TENANT_CLOSED');
  });

  test('requires the budget that it names: 404 if there is none, UNIT_MISMATCH if the units differ', async () => {
    const tenant = await on.holdfast.createTenant();
    expectRefusal(await credit(tenant, 1), 404, 'BUDGET_NOT_FOUND');
    expectRefusal(await credit(tenant, 1, { amount: { unit: 'CREDITS', amount: 1 } }), 400, 'UNIT_MISMATCH');
  });

  test('by an operator needs the tenant, by a key ignores it, and never crosses tenants', async () => {
    shows('funding tenant');
    const [tenant, other] = [await on.holdfast.fundedTenant(100), await on.holdfast.fundedTenant(100)];
    const path = `/v1/admin/budgets/fund?scope=${rootOf(tenant)}&unit=TOKENS`;
    const body = { operation: 'CREDIT', amount: { unit: 'TOKENS', amount: 1 }, idempotency_key: newKey() };
    expectRefusal(await on.holdfast.admin('POST', path, body), 400, 'INVALID_REQUEST');
    expectRefusal(
      await on.holdfast.admin('POST', `${path}&tenant_id=${other.id}`, body),
      400,
      'INVALID_REQUEST',
    );
    expectStatus(await on.holdfast.admin('POST', `${path}&tenant_id=${tenant.id}`, body), 200);
    expectStatus(await credit(tenant, 1, {}, `&tenant_id=${other.id}`), 200);
    expectRefusal(await on.holdfast.call('POST', path, { key: other.key, body }), 403, 'FORBIDDEN');
    expect(expectStatus(await lookUp(tenant), 200).allocated.amount).toBe(102);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['an unknown operation', { operation: 'STEAL' }, 'operation'],
    ['a negative spent', { operation: 'RESET_SPENT', spent: { unit: 'TOKENS', amount: -1 } }, 'spent.amount'],
    ['a negative amount', { amount: { unit: 'TOKENS', amount: -1 } }, 'amount.amount'],
    ['a reason that is too long', { reason: 'r'.repeat(513) }, 'reason'],
    ['an empty idempotency key', { idempotency_key: '' }, 'idempotency_key'],
    ['an unknown field', { colour: 'red' }, 'colour'],
  ])('%s is refused with a clear message', async (_what, more, words) => {
    const tenant = await on.holdfast.fundedTenant(100);
    expect(expectRefusal(await credit(tenant, 1, more), 400, 'INVALID_REQUEST').message).toContain(words);
  });

  test('each operation responds with its own name and figures, and takes effect once per key', async () => {
    shows('funding operations');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await on.holdfast.reserve(tenant, 30), 200);
    const steps: [string, number, Record<string, unknown>, number, number][] = [
      ['DEBIT', 20, {}, 80, 50],
      ['RESET', 200, {}, 200, 170],
      ['RESET_SPENT', 100, { spent: { unit: 'TOKENS', amount: 25 } }, 100, 45],
      ['RESET_SPENT', 100, {}, 100, 70],
      ['REPAY_DEBT', 5, {}, 105, 75],
    ];
    for (const [operation, amount, more, allocated, remaining] of steps) {
      const key = newKey();
      const first = await credit(tenant, amount, { operation, idempotency_key: key, ...more });
      expect(expectStatus(first, 200)).toMatchObject({
        operation,
        new_allocated: { amount: allocated },
        new_remaining: { amount: remaining },
      });
      expect((await credit(tenant, amount, { operation, idempotency_key: key, ...more })).text).toBe(
        first.text,
      );
    }
    const types = (await on.stored.events(tenant.id))
      .map(({ type }) => type)
      .filter((type) => type.startsWith('budget.'));
    expect(types).toEqual([
      'budget.created',
      'budget.debited',
      'budget.reset',
      'budget.reset_spent',
      'budget.reset_spent',
      'budget.debt_repaid',
    ]);
  });

  test("a debit of more than remains is refused, and the new spent must be in the budget's unit", async () => {
    shows('funding operations');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await on.holdfast.reserve(tenant, 30), 200);
    expectRefusal(await credit(tenant, 71, { operation: 'DEBIT' }), 409, 'BUDGET_EXCEEDED');
    expectStatus(await credit(tenant, 70, { operation: 'DEBIT' }), 200);
    const spent = { unit: 'CREDITS', amount: 1 };
    expectRefusal(await credit(tenant, 100, { operation: 'RESET_SPENT', spent }), 400, 'UNIT_MISMATCH');
    expectStatus(await credit(tenant, 100, { operation: 'RESET', spent }), 200);
  });

  test('debits race reserves: debited and held amounts together never exceed what there was', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const work = Array.from({ length: 40 }, (_, index) =>
      index % 2 === 0 ? credit(tenant, 7, { operation: 'DEBIT' }) : on.holdfast.reserve(tenant, 7),
    );
    const done = (await Promise.all(work)).filter(({ status }) => status === 200);
    expect(done).toHaveLength(14);
    expect(expectStatus(await lookUp(tenant), 200).remaining.amount).toBe(2);
  });
});
