import { expect, test } from '@jest/globals';
import { budgetKey } from '../../src/redis/keyspace.js';
import { expectRefusal, expectStatus, newKey, type Answer, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

// Without a sweeper, only requests expire holds.
const on = useGovernance();

const tokens = (amount: number): object => ({ unit: 'TOKENS', amount });
const scopeOf = ({ id }: TestTenant): string => `tenant:${id}`;
const lookUp = (tenant: TestTenant): string => `scope=${scopeOf(tenant)}&unit=TOKENS`;
const funding =
  (operation: string, amount: number) =>
  (tenant: TestTenant): Promise<Answer> =>
    on.holdfast.admin('POST', `/v1/admin/budgets/fund?${lookUp(tenant)}&tenant_id=${tenant.id}`, {
      operation,
      amount: tokens(amount),
      idempotency_key: newKey(),
    });
const bulk =
  (action: string, amount: number) =>
  (tenant: TestTenant): Promise<Answer> =>
    on.holdfast.admin('POST', '/v1/admin/budgets/bulk-action', {
      filter: { tenant_id: tenant.id },
      action,
      amount: tokens(amount),
      idempotency_key: newKey(),
    });
const limit =
  (overdraft: number) =>
  (tenant: TestTenant): Promise<Answer> =>
    on.holdfast.admin('PATCH', `/v1/admin/budgets?${lookUp(tenant)}`, { overdraft_limit: tokens(overdraft) });
const commit =
  (actual: number) =>
  (tenant: TestTenant, alive: string): Promise<Answer> =>
    on.holdfast.commit(tenant, alive, actual);

test.each([
  ['a commit of more than was held', false, commit(600), '400 0 600 0'],
  ['a DEBIT', false, funding('DEBIT', 500), '400 100 0 0'],
  ['a RESET of a marked budget', true, funding('RESET', 500), '400 100 0 0'],
  ['a DEBIT of many budgets', false, bulk('DEBIT', 500), '400 100 0 0'],
  ['a RESET of many budgets, one of them marked', true, bulk('RESET', 500), '400 100 0 0'],
  ['a new overdraft limit of a marked budget', true, limit(5), '900 100 0 0'],
] as const)(
  'an expired hold decides nothing in %s, and its expiry is counted',
  async (_, isMarked, act, figures) => {
    const tenant = await on.holdfast.fundedTenant(1000);
    const more = { overage_policy: 'ALLOW_IF_AVAILABLE', grace_period_ms: 0 };
    const alive = await on.holdfast.hold(tenant, 100, more);
    const dead = await on.holdfast.hold(tenant, 900, more);
    await on.holds.expireIn(dead, -1000);
    if (isMarked) {
      await on.holds.redis.hset(
        budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', scopeOf(tenant)),
        'is_over_limit',
        '1',
      );
    }
    const labels = { tenant: tenant.id };
    const before = await on.holdfast.metric('cycles_reservations_expired_total', labels);
    const answer = expectStatus(await act(tenant, alive), 200);
    expect(answer.failed ?? []).toEqual([]);
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: figures });
    expect(await on.holdfast.metric('cycles_reservations_expired_total', labels)).toBe(before + 1);
    expect(
      await on.holds.redis.hget(
        budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', scopeOf(tenant)),
        'is_over_limit',
      ),
    ).toBe('0');
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${dead}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    expectStatus(await on.holdfast.reserve(tenant, 300), 200);
  },
);
