import { describe, expect, jest, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import { RedisService } from '../../src/redis/index.js';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
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

  async function walk(
    key: string | undefined,
    query: string,
    nameOf = (ledger: Json): string => ledger.scope,
  ): Promise<string[]> {
    const seen: string[] = [];
    for (let cursor = ''; ;) {
      const path = `/v1/admin/budgets?${query}${cursor}`;
      const page = expectStatus(
        key === undefined
          ? await on.holdfast.admin('GET', path)
          : await on.holdfast.call('GET', path, { key }),
        200,
      );
      seen.push(...page.ledgers.map(nameOf));
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

  test('a key sees only its own tenant and is refused another; an operator sees all tenants or one', async () => {
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

  test('the pages contain every ledger once, even if one run of the script cannot read them all', async () => {
    shows('budget filters');
    const tenant = await on.holdfast.createTenant();
    await Promise.all(
      Array.from({ length: 230 }, (_, index) => on.holdfast.createBudget(tenant, `/app:n${index}`, 1)),
    );
    const seen = await walk(tenant.key, 'limit=2000');
    expect(seen).toHaveLength(230);
    expect(new Set(seen).size).toBe(230);
  });

  test('a list by scope has each scope before those below it and these before its next sibling, and the units of each ascending, in pages of every size', async () => {
    const tenant = await on.holdfast.createTenant();
    const units = ['CREDITS', 'RISK_POINTS', 'TOKENS', 'USD_MICROCENTS'];
    const below = [
      '',
      '/app:a',
      '/app:a/agent:z',
      '/app:a-b',
      '/app:a.b',
      '/app:a0',
      '/app:a_b',
      '/workspace:a',
    ];
    for (const path of below) {
      for (const unit of path.length % 2 === 0 ? units : units.slice(2)) {
        await on.holdfast.createBudget(tenant, path, 8, { unit });
      }
    }
    const named = ({ scope, unit }: Json): string => `${scope} ${unit}`;
    const inOrder = (direction: string): string[] =>
      (direction === 'asc' ? below : below.toReversed())
        .map((path) => rootOf(tenant) + path)
        .flatMap((scope) =>
          ((scope.length - rootOf(tenant).length) % 2 === 0 ? units : units.slice(2)).map(
            (unit) => `${scope} ${unit}`,
          ),
        );
    for (const direction of ['asc', 'desc']) {
      const order = `tenant_id=${tenant.id}&sort_by=scope&sort_dir=${direction}`;
      const expected = inOrder(direction);
      for (const limit of [1, 2, 3, 4, 5, 7, 100]) {
        for (const key of [tenant.key, undefined]) {
          expect([limit, await walk(key, `${order}&limit=${limit}`, named)]).toEqual([limit, expected]);
        }
      }
      for (const [filter, matches] of [
        ['unit=TOKENS', (name) => name.endsWith('TOKENS')],
        [`scope_prefix=${rootOf(tenant)}/APP:a`, (name) => /\/app:a[ /]/.test(name)],
        [`scope_prefix=${rootOf(tenant)}/app:`, () => false],
        [`scope_prefix=${rootOf(tenant)}`, () => true],
        [`scope_prefix=${rootOf(tenant)}/app:a/`, (name) => name.includes('/app:a/')],
        ['scope_prefix=z', () => false],
        ['scope_prefix=a', () => false],
        ['search=A_B&unit=CREDITS', (name) => name.endsWith('/app:a_b CREDITS')],
      ] as [string, (name: string) => boolean][]) {
        expect([filter, await walk(tenant.key, `${order}&limit=2&${filter}`, named)]).toEqual([
          filter,
          expected.filter(matches),
        ]);
      }
    }
  });

  test('a list by scope of all tenants keeps the scopes of a tenant together, however the names of others begin', async () => {
    const tenant = await on.holdfast.createTenant();
    const other = `${tenant.id}-2`;
    expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: other, name: other }),
      201,
    );
    const scopes = [tenant.id, other].flatMap((id) => [`tenant:${id}`, `tenant:${id}/workspace:support`]);
    for (const scope of scopes) {
      const [owner = '', below = ''] = scope.slice('tenant:'.length).split('/');
      await on.holdfast.createBudget({ id: owner, key: '' }, below && `/${below}`, 8);
    }
    for (const limit of [1, 3, 100]) {
      const query = `search=${tenant.id}&sort_by=scope&limit=${limit}`;
      expect(await walk(undefined, `${query}&sort_dir=asc`)).toEqual(scopes);
      expect(await walk(undefined, `${query}&sort_dir=desc`)).toEqual(scopes.toReversed());
    }
  });

  test('sort_by=used counts what is held as well', async () => {
    const { tenant, scopes } = await tenantWithLedgers();
    const [a, b, eng, engApp] = scopes as [string, string, string, string];
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/app:a'), { reserved: 7, remaining: 1 });
    expect(await walk(tenant.key, 'sort_by=used&limit=1')).toEqual([engApp, a, eng, b]);
    expect(await walk(tenant.key, 'sort_by=used&sort_dir=asc&limit=3')).toEqual([b, eng, a, engApp]);
  });

  test('sort_by=used counts the window that is used most, while it lasts', async () => {
    const { tenant, scopes } = await tenantWithLedgers();
    const [a, b, eng, engApp] = scopes as [string, string, string, string];
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/app:a'), { reserved: 7, remaining: 1 });
    const amount = (figure: number): Json => ({ unit: 'CREDITS', amount: figure });
    const day = { name: 'day', limit: amount(100), every: 'day', time_zone: 'UTC' };
    const windows = [day, { ...day, name: 'month', limit: amount(50), every: 'month' }];
    const path = `/ops/budgets/windows?scope=${b}&unit=CREDITS`;
    expectStatus(await on.holdfast.admin('PUT', path, { windows }), 200);
    const key = on.stored.budgetKey(tenant.id, '/app:b', 'CREDITS');
    const spend = async (replaced: string, by: string): Promise<unknown> =>
      on.stored.redis.hset(
        key,
        'windows',
        String(await on.stored.redis.hget(key, 'windows')).replace(replaced, by),
      );
    await spend('month,50,0', 'month,50,49');
    expect(await walk(tenant.key, 'sort_by=used&limit=1')).toEqual([engApp, b, a, eng]);
    // What was spent in a window that has ended counts no more.
    const [day0 = '', month = ''] = String(await on.stored.redis.hget(key, 'windows')).split(' ');
    const ended = [...month.split(',').slice(0, 3), 1000, 2000].join();
    await on.stored.redis.hset(key, 'windows', `${day0} ${ended}`);
    // Another query, because the order of the first one is kept for its next pages.
    expect(await walk(tenant.key, 'sort_by=used&sort_dir=asc')).toEqual([b, eng, a, engApp]);
  });

  /**
   * A tenant with 3,001 budgets, stored as copies of the first one. Each has spent more than the one before.
   */
  async function tenantWithMany(): Promise<TestTenant> {
    const tenant = await on.holdfast.fundedTenant(10_000);
    const tag = on.stored.tagOf(tenant.id);
    const template = await on.stored.redis.hgetall(on.stored.budgetKey(tenant.id));
    const pipeline = on.stored.redis.pipeline();
    for (let index = 0; index < 3000; index += 1) {
      const name = `/app:n${String(index).padStart(4, '0')}`;
      const figures = { spent: index + 1, remaining: 10_000 - index - 1 };
      pipeline.hset(on.stored.budgetKey(tenant.id, name), { ...template, ...figures });
      pipeline.zadd(budgetIndexKey(tag, tenant.id), 0, treeOrder(`${rootOf(tenant)}${name} TOKENS`));
    }
    await pipeline.exec();
    return tenant;
  }

  /** A page, and how many budgets were read for it, at most a hundred in a run. */
  async function readRecords(tenant: TestTenant, query: string): Promise<[Json, number]> {
    const calls = jest.spyOn(on.holdfast.app.get(RedisService).queries, 'call');
    const path = `/v1/admin/budgets?tenant_id=${tenant.id}&${query}`;
    const page = expectStatus(await on.holdfast.admin('GET', path), 200);
    const replies = (await Promise.all(calls.mock.results.map(({ value }) => value))) as (
      { readonly budgets: readonly unknown[] } | object
    )[];
    calls.mockRestore();
    const read = replies.map((reply) => ('budgets' in reply ? reply.budgets.length : 0));
    expect(Math.max(...read)).toBeLessThanOrEqual(100);
    return [page, read.reduce((sum, count) => sum + count, 0)];
  }

  test('from its third page on, a list by use reads only its own budgets, in their current state', async () => {
    const tenant = await tenantWithMany();
    const query = 'sort_by=used&status=ACTIVE&limit=20';
    const names = ({ ledgers }: Json): string[] => ledgers.map(({ scope }: Json) => scope.slice(-5));
    const expected = (first: number): string[] =>
      Array.from({ length: 20 }, (_, index) => `n${String(first - index).padStart(4, '0')}`);
    const [first, readFirst] = await readRecords(tenant, query);
    const [second, readSecond] = await readRecords(tenant, `${query}&cursor=${first.next_cursor}`);
    expect([readFirst, readSecond]).toEqual([3001, 3001]);
    expect([names(first), names(second)]).toEqual([expected(2999), expected(2979)]);

    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/app:n2958'), { spent: 1, remaining: 9999 });
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/app:n2950'), { status: 'FROZEN' });
    const [third, readThird] = await readRecords(tenant, `${query}&cursor=${second.next_cursor}`);
    // One more was read, to replace the frozen one.
    expect([names(third), readThird]).toEqual([
      [...expected(2959).filter((name) => name !== 'n2950'), 'n2939'],
      21,
    ]);
    expect(third.ledgers[1].spent.amount).toBe(1);
    // Of all 3,001, two are missing: the frozen one, and the one whose position has changed.
    const all = await walk(undefined, `tenant_id=${tenant.id}&${query.replace('20', '100')}`);
    expect([all.length, new Set(all).size, all.at(-1)]).toEqual([2999, 2999, rootOf(tenant)]);
  });

  test("a page of a tenant's list by scope reads only its own budgets, however many there are", async () => {
    const tenant = await tenantWithMany();
    // One more to learn whether there is another page, and the four units that the scopes at both ends may
    // have.
    const most = 20 + 1 + 2 * 4;
    for (const [query, first, second] of [
      ['sort_dir=asc&limit=20', '', '/app:n0019'],
      ['sort_dir=desc&limit=20', '/app:n2999', '/app:n2979'],
      [`sort_dir=asc&limit=20&scope_prefix=${rootOf(tenant)}`, '', '/app:n0019'],
      [`sort_dir=desc&limit=20&scope_prefix=${rootOf(tenant)}/`, '/app:n2999', '/app:n2979'],
    ] as const) {
      const [page, read] = await readRecords(tenant, `sort_by=scope&${query}`);
      const [next, readNext] = await readRecords(tenant, `sort_by=scope&${query}&cursor=${page.next_cursor}`);
      expect([page.ledgers[0].scope, next.ledgers[0].scope]).toEqual([
        rootOf(tenant) + first,
        rootOf(tenant) + second,
      ]);
      expect([query, page.ledgers.length, next.ledgers.length, read, readNext]).toEqual([
        query,
        20,
        20,
        most,
        most,
      ]);
    }
    const [{ ledgers }, read] = await readRecords(
      tenant,
      'sort_by=scope&sort_dir=desc&limit=20&search=n0000',
    );
    expect([ledgers.length, read]).toEqual([1, 3001]);
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

  test("a cursor of one tenant's list is refused for another tenant", async () => {
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
