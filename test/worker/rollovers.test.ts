import { expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { treeOrder } from '../../src/ledger/index.js';
import { budgetIndexKey, budgetKey, periodIndexKey } from '../../src/redis/keyspace.js';
import { expectStatus, type TestTenant } from '../support/holdfast.js';
import { endPeriodAt } from '../support/periods.js';
import { useGovernance } from '../support/use-governance.js';

/** One more than the job works on at the same time. */
const BUSY = 17;
/** Budgets that the job rolls over before the next partition has its turn. */
const PAGE = 20;
const BUDGETS = 3 * PAGE + 5;

const on = useGovernance();

/** A tenant with as many budgets, all of whose periods are over. */
async function tenantWithEndedPeriods(): Promise<TestTenant> {
  const tenant = await on.holdfast.fundedTenant(100);
  const period = { period_end: new Date(Date.now() + 3_600_000).toISOString() };
  const path = `/ops/budgets/period?scope=tenant:${tenant.id}&unit=TOKENS`;
  expectStatus(await on.holdfast.admin('PATCH', path, period), 200);
  const endedMs = Date.now() - 1;
  await endPeriodAt(on.stored.redis, tenant.id, endedMs);
  const tag = on.stored.tagOf(tenant.id);
  const pipeline = on.stored.redis.pipeline();
  for (let number = 1; number < BUDGETS; number += 1) {
    const scope = `tenant:${tenant.id}/agent:a${number}`;
    pipeline.copy(on.stored.budgetKey(tenant.id), budgetKey(tag, 'TOKENS', scope));
    pipeline.zadd(budgetIndexKey(tag, tenant.id), 0, treeOrder(`${scope} TOKENS`));
    pipeline.zadd(periodIndexKey(tag), endedMs, `${scope} TOKENS`);
  }
  await pipeline.exec();
  return tenant;
}

test('with more busy partitions than are worked on at once, none gets a second page before each had its first', async () => {
  const tenants: TestTenant[] = [];
  for (let number = 0; number < BUSY; number += 1) {
    tenants.push(await tenantWithEndedPeriods());
  }
  const done = (): Promise<number[]> =>
    Promise.all(
      tenants.map(
        async ({ id }) =>
          BUDGETS - (await on.stored.redis.zcount(periodIndexKey(on.stored.tagOf(id)), '-inf', Date.now())),
      ),
    );
  const job = on.holdfast.app.get(BudgetRollovers);
  const before = await on.holdfast.metric('holdfast_budget_rollovers_total');
  let seen = await done();
  expect(seen).toEqual(tenants.map(() => 0));
  while (Math.min(...seen) < BUDGETS) {
    await job.runTurn({ goesOn: () => true });
    const now = await done();
    expect(Math.max(...now) - Math.min(...now)).toBeLessThanOrEqual(PAGE);
    expect(now).not.toEqual(seen);
    seen = now;
  }
  expect(await on.holdfast.metric('holdfast_budget_rollovers_total')).toBe(before + BUSY * BUDGETS);
});
