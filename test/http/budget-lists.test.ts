import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

describe('lists of budgets', () => {
  const on = useGovernance();

  const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;

  /** Four ledgers with utilization 0, 1/4, 1/2 and 1 and, on the last, debt. */
  async function tenantWithLedgers(): Promise<{ tenant: TestTenant; scopes: string[] }> {
    const tenant = await on.holdfast.createTenant();
    const below = ['/app:a', '/app:b', '/workspace:eng', '/workspace:eng/app:c'];
    for (const [index, path] of below.entries()) {
      await on.holdfast.createBudget(tenant, path, 8, index === 1 ? { unit: 'CREDITS' } : {});
      const spent = [0, 2, 4, 8][index] as number;
      const debt = index === 3 ? 3 : 0;
      await on.stored.redis.hset(on.stored.budgetKey(tenant.id, path, index === 1 ? 'CREDITS' : 'TOKENS'), {
        spent,
        remaining: 8 - spent - debt,
        debt,
        overdraft_limit: index === 3 ? 2 : 0,
        status: index === 2 ? 'FROZEN' : 'ACTIVE',
      });
    }
    return { tenant, scopes: below.map((path) => rootOf(tenant) + path) };
  }

  async function walk(key: string | undefined, query: string): Promise<string[]> {
    const seen: string[] = [];
    for (let cursor = ''; ;) {
      const path = `/v1/admin/budgets?${query}${cursor}`;
      const page = expectStatus(
        key === undefined
          ? await on.holdfast.admin('GET', path)
          : await on.holdfast.call('GET', path, { key }),
        200,
      );
      seen.push(...page.ledgers.map((ledger: Json) => ledger.scope));
      expect(page.has_more).toBe('next_cursor' in page);
      if (page.has_more === false) {
        return seen;
      }
      cursor = `&cursor=${page.next_cursor}`;
    }
  }

  test('the most utilized come first, and every sort key works in both directions', async () => {
    shows('listBudgets');
    const { tenant, scopes } = await tenantWithLedgers();
    const [a, b, eng, engApp] = scopes as [string, string, string, string];
    expect(await walk(tenant.key, 'limit=1')).toEqual([engApp, eng, b, a]);
    expect(await walk(tenant.key, 'limit=3&sort_dir=asc')).toEqual([a, b, eng, engApp]);
    expect(await walk(tenant.key, 'sort_by=scope&sort_dir=asc&limit=2')).toEqual([a, b, eng, engApp]);
    expect(await walk(tenant.key, 'sort_by=debt&limit=2')).toEqual([engApp, a, b, eng]);
    expect((await walk(tenant.key, 'sort_by=unit&sort_dir=asc&limit=2'))[0]).toBe(b);
    expect((await walk(tenant.key, 'sort_by=status&limit=2'))[0]).toBe(eng);
    expect(await walk(tenant.key, 'sort_by=commit_overage_policy&limit=2')).toHaveLength(4);
  });

  test('filters combine', async () => {
    shows('budget filters');
    const { tenant, scopes } = await tenantWithLedgers();
    const [a, b, eng, engApp] = scopes as [string, string, string, string];
    expect(await walk(tenant.key, 'unit=CREDITS')).toEqual([b]);
    expect(await walk(tenant.key, 'status=FROZEN')).toEqual([eng]);
    expect(await walk(tenant.key, 'has_debt=true')).toEqual([engApp]);
    expect(await walk(tenant.key, 'over_limit=true')).toEqual([engApp]);
    expect(await walk(tenant.key, 'over_limit=false&has_debt=false&unit=TOKENS')).toEqual([eng, a]);
    expect(await walk(tenant.key, 'utilization_min=0.25&utilization_max=0.5')).toEqual([eng, b]);
    expect(await walk(tenant.key, `scope_prefix=${rootOf(tenant)}/WORKSPACE:eng`)).toEqual([engApp, eng]);
    expect(await walk(tenant.key, 'search=APP:B')).toEqual([b]);
    expect(await walk(tenant.key, 'search=')).toHaveLength(4);
  });

  test('a key sees its own tenant only, and is refused another; an operator sees all or one', async () => {
    shows('budget lists');
    const [first, second] = [await tenantWithLedgers(), await tenantWithLedgers()];
    for (const query of ['', 'tenant_id=', `tenant_id=${first.tenant.id}`]) {
      expect(new Set(await walk(first.tenant.key, query))).toEqual(new Set(first.scopes));
    }
    expectRefusal(
      await on.holdfast.call('GET', `/v1/admin/budgets?tenant_id=${second.tenant.id}`, {
        key: first.tenant.key,
      }),
      403,
      'FORBIDDEN',
    );
    expect(await walk(undefined, `tenant_id=${second.tenant.id}&limit=3`)).toHaveLength(4);
    const all = await walk(undefined, 'limit=2000');
    expect(all).toEqual(expect.arrayContaining([...first.scopes, ...second.scopes]));
    expect(new Set(await walk(undefined, `search=${second.tenant.id}&limit=1`))).toEqual(
      new Set(second.scopes),
    );
  });

  test('more ledgers than one run of the script reads are all walked through once', async () => {
    shows('budget filters');
    const tenant = await on.holdfast.createTenant();
    await Promise.all(
      Array.from({ length: 230 }, (_, index) => on.holdfast.createBudget(tenant, `/app:n${index}`, 1)),
    );
    const seen = await walk(tenant.key, 'limit=2000');
    expect(seen).toHaveLength(230);
    expect(new Set(seen).size).toBe(230);
  });

  test.each([
    'utilization_min=1.5',
    'utilization_max=-1',
    'utilization_min=x',
    'utilization_min=0.6&utilization_max=0.5',
    'over_limit=maybe',
    'sort_by=colour',
    'sort_dir=up',
    'limit=0',
    'unit=EUR',
    'status=odd',
    'cursor=odd',
    'unit=TOKENS&unit=CREDITS',
  ])('%s is refused', async (query) => {
    shows('utilization filter');
    expectRefusal(await on.holdfast.admin('GET', `/v1/admin/budgets?${query}`), 400, 'INVALID_REQUEST');
  });

  test("a cursor of one tenant's list is foreign to another tenant", async () => {
    const [first, second] = [await tenantWithLedgers(), await tenantWithLedgers()];
    const page = expectStatus(
      await on.holdfast.call('GET', '/v1/admin/budgets?limit=1', { key: first.tenant.key }),
      200,
    );
    const stolen = await on.holdfast.call('GET', `/v1/admin/budgets?limit=1&cursor=${page.next_cursor}`, {
      key: second.tenant.key,
    });
    expectRefusal(stolen, 400, 'INVALID_REQUEST');
  });
});
