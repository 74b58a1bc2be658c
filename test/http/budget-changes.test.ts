import { afterEach, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, newKey, type Answer, type TestTenant } from '../support/holdfast.js';
import { Changes } from '../../src/redis/changes.js';
import { budgetKey, tagOfTenant } from '../../src/redis/keyspace.js';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { eventually } from '../support/eventually.js';
import { endPeriodAt } from '../support/periods.js';
import { useGovernance } from '../support/use-governance.js';

describe('operators change budgets', () => {
  const on = useGovernance();

  const at = (tenant: TestTenant): string => `?scope=tenant:${tenant.id}&unit=TOKENS`;
  const patch = (tenant: TestTenant, body: unknown): Promise<Answer> =>
    on.holdfast.admin('PATCH', `/v1/admin/budgets${at(tenant)}`, body);
  const turn = (verb: 'freeze' | 'unfreeze', tenant: TestTenant, body?: unknown): Promise<Answer> =>
    on.holdfast.admin('POST', `/v1/admin/budgets/${verb}${at(tenant)}`, body);
  const tokens = (amount: number): { unit: string; amount: number } => ({ unit: 'TOKENS', amount });
  const budgetEvents = async (tenant: TestTenant): Promise<string[]> =>
    (await on.stored.events(tenant.id))
      .map(({ type }) => type)
      .filter((type) => type.startsWith('budget.') && type !== 'budget.created');

  /** A tenant whose budget of 100 owes 30 of at most 50. */
  async function tenantInDebt(): Promise<TestTenant> {
    const tenant = await on.holdfast.fundedTenant(100, {}, { overdraft_limit: tokens(50) });
    const { reservation_id } = expectStatus(
      await on.holdfast.reserve(tenant, 100, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, reservation_id as string, 130), 200);
    return tenant;
  }

  test('an idle budget rolls over at the end of its period, with its event, row and count', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const id = await on.holdfast.hold(tenant, 60);
    expectStatus(await on.holdfast.commit(tenant, id, 60), 200);
    const before = await on.holdfast.metric('holdfast_budget_rollovers_total');
    const [start, end] = [-3_600_000, 3_600_000].map((ms) => new Date(Date.now() + ms).toISOString());
    const period = { period_start: start, period_end: end };
    const changed = await on.holdfast.admin('PATCH', `/ops/budgets/period${at(tenant)}`, period);
    expect(expectStatus(changed, 200)).toMatchObject({ spent: tokens(60), ...period });
    const endedMs = Date.now();
    await endPeriodAt(on.stored.redis, tenant.id, endedMs);
    await eventually('the rollover is counted', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await on.holdfast.metric('holdfast_budget_rollovers_total')) === before + 1;
    });
    expect(await budgetEvents(tenant)).toEqual(['budget.updated', 'budget.reset_spent']);
    const budget = await on.holdfast.admin('GET', `/v1/admin/budgets/lookup${at(tenant)}`);
    expect(expectStatus(budget, 200)).toMatchObject({
      spent: tokens(0),
      remaining: tokens(100),
      period_start: new Date(endedMs).toISOString(),
    });
    const rows = await on.holdfast.admin(
      'GET',
      `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=rollOverBudget`,
    );
    expect(expectStatus(rows, 200).logs).toMatchObject([
      {
        resource_type: 'budget',
        metadata: { actor_type: 'system', spent: '60', period_start: expect.anything() },
      },
    ]);
  });

  test('a budget that is out of balance stops a reserve and a commit, is counted, and can be funded again', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const id = await on.holdfast.hold(tenant, 10);
    const key = budgetKey(tagOfTenant(tenant.id, 64), 'TOKENS', `tenant:${tenant.id}`);
    await on.stored.redis.hincrby(key, 'spent', 1);
    const before = await on.holdfast.metric('holdfast_budgets_damaged_total');
    expectRefusal(await on.holdfast.reserve(tenant, 1), 500, 'INTERNAL_ERROR');
    expectRefusal(await on.holdfast.commit(tenant, id, 1), 500, 'INTERNAL_ERROR');
    expect(await on.holdfast.metric('holdfast_budgets_damaged_total')).toBe(before + 2);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/fund${at(tenant)}&tenant_id=${tenant.id}`, {
        operation: 'RESET',
        amount: tokens(200),
        reason: 'repair',
        idempotency_key: newKey(),
      }),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
  });

  test('a patch changes what it names and nothing else', async () => {
    shows('updateBudget');
    const tenant = await on.holdfast.fundedTenant(100);
    const body = expectStatus(
      await patch(tenant, {
        overdraft_limit: tokens(7),
        commit_overage_policy: 'REJECT',
        metadata: { a: 1 },
      }),
      200,
    );
    expect(body).toMatchObject({
      overdraft_limit: tokens(7),
      commit_overage_policy: 'REJECT',
      allocated: tokens(100),
      status: 'ACTIVE',
    });
    expect(expectStatus(await patch(tenant, { overdraft_limit: tokens(9) }), 200)).toMatchObject({
      commit_overage_policy: 'REJECT',
    });
    expect(expectStatus(await patch(tenant, {}), 200).overdraft_limit).toEqual(tokens(9));
    expect(await budgetEvents(tenant)).toEqual(['budget.updated', 'budget.updated']);
    const { reservation_id } = expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    expectRefusal(await on.holdfast.commit(tenant, reservation_id as string, 2), 409, 'BUDGET_EXCEEDED');
  });

  test('a lower limit puts the scope over it, a higher one ends that, and each emits an event', async () => {
    shows('over limit until repaid', 'overdraft limit change');
    const tenant = await tenantInDebt();
    expect(expectStatus(await patch(tenant, { overdraft_limit: tokens(20) }), 200).is_over_limit).toBe(true);
    expectRefusal(await on.holdfast.reserve(tenant, 0), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expect(expectStatus(await patch(tenant, { overdraft_limit: tokens(30) }), 200).is_over_limit).toBe(false);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/fund${at(tenant)}&tenant_id=${tenant.id}`, {
        operation: 'REPAY_DEBT',
        amount: tokens(30),
      }),
      200,
    );
    const events = await budgetEvents(tenant);
    expect(events.slice(-5)).toEqual([
      'budget.updated',
      'budget.over_limit_entered',
      'budget.updated',
      'budget.over_limit_exited',
      'budget.debt_repaid',
    ]);
  });

  test('without a limit, debt blocks as debt and not as a limit that is exceeded', async () => {
    shows('outstanding debt');
    const tenant = await tenantInDebt();
    expect(expectStatus(await patch(tenant, { overdraft_limit: tokens(0) }), 200).is_over_limit).toBe(false);
    expectRefusal(await on.holdfast.reserve(tenant, 0), 409, 'DEBT_OUTSTANDING');
  });

  test('a frozen budget takes no reservation, commit or funding, returns holds, may be patched, and can be unfrozen', async () => {
    shows('frozen budget', 'freezeBudget', 'unfreezeBudget');
    const tenant = await on.holdfast.fundedTenant(100);
    const [first, second] = [
      expectStatus(await on.holdfast.reserve(tenant, 10), 200),
      expectStatus(await on.holdfast.reserve(tenant, 10), 200),
    ];
    expect(expectStatus(await turn('freeze', tenant, { reason: 'incident' }), 200).status).toBe('FROZEN');
    expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'BUDGET_FROZEN');
    expectRefusal(await on.holdfast.commit(tenant, first.reservation_id as string, 1), 409, 'BUDGET_FROZEN');
    expectStatus(await on.holdfast.settle(tenant, 'release', second.reservation_id as string), 200);
    const credit = { operation: 'CREDIT', amount: tokens(1), idempotency_key: newKey() };
    expectRefusal(
      await on.holdfast.admin('POST', `/v1/admin/budgets/fund${at(tenant)}&tenant_id=${tenant.id}`, credit),
      409,
      'BUDGET_FROZEN',
    );
    expect(expectStatus(await patch(tenant, { overdraft_limit: tokens(1) }), 200).status).toBe('FROZEN');
    expectRefusal(await turn('freeze', tenant), 409, 'BUDGET_FROZEN');
    expect(expectStatus(await turn('unfreeze', tenant), 200).status).toBe('ACTIVE');
    expectStatus(await on.holdfast.commit(tenant, first.reservation_id as string, 1), 200);
    expect(expectRefusal(await turn('unfreeze', tenant, {}), 409, 'DUPLICATE_RESOURCE').message).toContain(
      'already active',
    );
    expect(await budgetEvents(tenant)).toEqual(['budget.frozen', 'budget.updated', 'budget.unfrozen']);
  });

  test('a closed budget and a closed tenant take no change', async () => {
    shows('frozen budget');
    const tenant = await on.holdfast.fundedTenant(100);
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id), 'status', 'CLOSED');
    for (const answer of [
      patch(tenant, { overdraft_limit: tokens(1) }),
      turn('freeze', tenant),
      turn('unfreeze', tenant),
    ]) {
      expectRefusal(await answer, 409, 'BUDGET_CLOSED');
    }
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    for (const answer of [patch(tenant, {}), turn('freeze', tenant), turn('unfreeze', tenant)]) {
      expectRefusal(await answer, 409, 'TENANT_CLOSED');
    }
    expect(await budgetEvents(tenant)).toEqual([]);
  });

  test('only operators may change a budget, and only an existing one', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    for (const [method, path] of [
      ['PATCH', ''],
      ['POST', '/freeze'],
      ['POST', '/unfreeze'],
    ] as const) {
      expectRefusal(
        await on.holdfast.call(method, `/v1/admin/budgets${path}${at(tenant)}`, {
          key: tenant.key,
          body: {},
        }),
        401,
        'UNAUTHORIZED',
      );
      const missing = `/v1/admin/budgets${path}?scope=tenant:${tenant.id}/agent:x&unit=TOKENS`;
      expectRefusal(await on.holdfast.admin(method, missing, {}), 404, 'BUDGET_NOT_FOUND');
    }
  });

  test.each<[string, unknown, string]>([
    ['a limit in another unit', { overdraft_limit: { unit: 'CREDITS', amount: 1 } }, 'UNIT_MISMATCH'],
    ['a negative limit', { overdraft_limit: { unit: 'TOKENS', amount: -1 } }, 'INVALID_REQUEST'],
    ['a member that may not be changed', { allocated: { unit: 'TOKENS', amount: 1 } }, 'INVALID_REQUEST'],
    ['no body', undefined, 'INVALID_REQUEST'],
  ])('a patch with %s is refused', async (_what, body, code) => {
    expectRefusal(await patch(await on.holdfast.fundedTenant(100), body), 400, code);
  });

  test('a reason that is too long is refused', async () => {
    expectRefusal(
      await turn('freeze', await on.holdfast.fundedTenant(100), { reason: 'r'.repeat(513) }),
      400,
      'INVALID_REQUEST',
    );
  });

  describe('changes of one tenant at the same time', () => {
    const changes = (): Changes => on.holdfast.app.get(Changes);
    const waiting = (): Promise<number> => on.holdfast.metric('holdfast_changes_waiting');
    const ends: (() => void)[] = [];

    async function occupy(owner: string): Promise<void> {
      ends.push(await changes().admit(owner, new AbortController().signal));
    }

    afterEach(() => ends.splice(0).forEach((end) => end()));

    test('wait for each other; reservations and other tenants do not', async () => {
      const [tenant, other] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
      await Promise.all([tenant, other].map((each) => on.holdfast.createBudget(each, '', 100)));
      const change = ({ id, key }: TestTenant): Promise<Answer> =>
        on.holdfast.call('POST', '/v1/admin/policies', {
          key,
          body: { name: 'any', scope_pattern: `tenant:${id}` },
        });
      const before = await on.holdfast.metric('holdfast_change_waits_total');
      await occupy(tenant.id);
      const waits = change(tenant);
      await eventually('it waits', async () => (await waiting()) === 1);
      expectStatus(await on.holdfast.reserve(tenant, 1), 200);
      expectStatus(await change(other), 201);
      expect(await waiting()).toBe(1);
      ends.pop()?.();
      expectStatus(await waits, 201);
      expect(await waiting()).toBe(0);
      expect(await on.holdfast.metric('holdfast_change_waits_total')).toBe(before + 1);
    });

    test.each([
      ['was revoked', undefined, 401, 'UNAUTHORIZED'],
      ['lost its permission', ['balances:read'], 403, 'INSUFFICIENT_PERMISSIONS'],
    ] as const)('change nothing if the key %s while they wait', async (_, permissions, status, code) => {
      const tenant = await on.holdfast.createTenant();
      const body = { tenant_id: tenant.id, name: 'changes during a wait' };
      const made = expectStatus(await on.holdfast.admin('POST', '/v1/admin/api-keys', body), 201);
      await occupy(tenant.id);
      const late = on.holdfast.call('POST', '/v1/admin/policies', {
        key: made.key_secret as string,
        body: { name: 'any', scope_pattern: `tenant:${tenant.id}` },
      });
      await eventually('it waits', async () => (await waiting()) === 1);
      const path = `/v1/admin/api-keys/${made.key_id}`;
      // The operators' changes have a turn of their own.
      const changed =
        permissions === undefined
          ? await on.holdfast.admin('DELETE', path)
          : await on.holdfast.admin('PATCH', path, { permissions });
      expectStatus(changed, 200);
      ends.pop()?.();
      expectRefusal(await late, status, code);
      const { policies } = expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/policies?tenant_id=${tenant.id}`),
        200,
      );
      expect(policies).toEqual([]);
      // Its turn has ended.
      await occupy(tenant.id);
    });

    test('change nothing if the client disconnects while they wait', async () => {
      const tenant = await on.holdfast.createTenant();
      await occupy(tenant.id);
      const leaving = new AbortController();
      const left = fetch(`${on.holdfast.url}/v1/admin/budgets`, {
        method: 'POST',
        headers: { 'x-cycles-api-key': tenant.key, 'content-type': 'application/json' },
        body: JSON.stringify({
          scope: `tenant:${tenant.id}`,
          unit: 'TOKENS',
          allocated: { unit: 'TOKENS', amount: 1 },
        }),
        signal: leaving.signal,
      }).catch(() => 'gone');
      await eventually('it waits', async () => (await waiting()) === 1);
      leaving.abort();
      expect(await left).toBe('gone');
      await eventually('it left', async () => (await waiting()) === 0);
      ends.splice(0).forEach((end) => end());
      const { ledgers } = expectStatus(
        await on.holdfast.call('GET', '/v1/admin/budgets', { key: tenant.key }),
        200,
      );
      expect(ledgers).toEqual([]);
    });
  });
});
