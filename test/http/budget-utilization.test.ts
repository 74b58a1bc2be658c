import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BudgetUtilization } from '../../src/governance/budgets/budget-utilization.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';

/* The metric has the budgets of the whole deployment, so there must be no others. */

let store: Store;
let holdfast: Holdfast;

beforeAll(async () => {
  store = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: store.url });
});
afterAll(async () => {
  await holdfast.stop();
  await store.stop();
});

/** The shares by scope, after a look at all budgets. */
async function shown(): Promise<Map<string, number>> {
  await holdfast.app.get(BudgetUtilization).look(60_000);
  const { text } = await holdfast.call('GET', '/metrics', { headers: { 'x-admin-api-key': ADMIN_API_KEY } });
  const series = text.matchAll(/^holdfast_budget_utilization_ratio\{(.*)\} (.*)$/gm);
  return new Map(
    [...series].map(([, labels = '', value]) => [/scope="([^"]*)"/.exec(labels)?.[1] ?? '', Number(value)]),
  );
}

async function spend(tenant: TestTenant, below: string, amount: number): Promise<void> {
  const agent = below.replace('/agent:', '');
  expectStatus(
    await holdfast.commit(
      tenant,
      await holdfast.hold(tenant, amount, { subject: { tenant: tenant.id, agent } }),
      amount,
    ),
    200,
  );
}

test('the budgets of which the most is spent or held are in the metrics, and no more than 100', async () => {
  const tenant = await holdfast.createTenant();
  const root = `tenant:${tenant.id}`;
  for (const below of ['/agent:idle', '/agent:little', '/agent:much', '/agent:held', '/agent:closed']) {
    await holdfast.createBudget(tenant, below, 100);
  }
  await spend(tenant, '/agent:little', 79);
  await spend(tenant, '/agent:much', 80);
  await spend(tenant, '/agent:held', 50);
  await holdfast.hold(tenant, 45, { subject: { tenant: tenant.id, agent: 'held' } });
  expect(await shown()).toEqual(
    new Map([
      [`${root}/agent:held`, 0.95],
      [`${root}/agent:much`, 0.8],
    ]),
  );

  expectStatus(
    await holdfast.admin(
      'POST',
      `/v1/admin/budgets/fund?tenant_id=${tenant.id}&scope=${root}/agent:much&unit=TOKENS`,
      {
        operation: 'CREDIT',
        amount: { unit: 'TOKENS', amount: 100 },
        idempotency_key: 'more',
      },
    ),
    200,
  );
  expect([...(await shown()).keys()]).toEqual([`${root}/agent:held`]);

  const crowd = await holdfast.createTenant();
  const agents = Array.from({ length: 101 }, (_, index) => `/agent:a${index}`);
  await Promise.all(agents.map((below) => holdfast.createBudget(crowd, below, 200)));
  await Promise.all(agents.map((below, index) => spend(crowd, below, index === 7 ? 180 : 192)));
  const all = await shown();
  expect(all.size).toBe(100);
  expect(all.has(`tenant:${crowd.id}/agent:a7`)).toBe(false);
  expect(all.has(`${root}/agent:held`)).toBe(false);
});
