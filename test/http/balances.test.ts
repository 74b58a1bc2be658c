import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';

let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  holdfast = await Holdfast.start();
  tenant = await holdfast.createTenant();
  for (const below of [
    '',
    '/workspace:prod',
    '/workspace:prod/agent:bot',
    '/workspace:prod/agent:bot2',
    '/agent:bot',
    '/agent:bot/toolset:t',
  ]) {
    await holdfast.createBudget(tenant, below, 100);
  }
  await holdfast.createBudget(tenant, '', 50, { unit: 'CREDITS' });
});

afterAll(async () => {
  await holdfast.stop();
});

async function paths(query: string): Promise<string[]> {
  const body = expectStatus(await holdfast.call('GET', `/v1/balances?${query}`, { key: tenant.key }), 200);
  return body.balances.map(
    (balance: Json) => `${balance.scope_path.slice(`tenant:${tenant.id}`.length)} ${balance.remaining.unit}`,
  );
}

describe('balances over the wire', () => {
  test('of a scope are its own budgets, in every unit', async () => {
    shows('getBalances');
    expect(await paths(`tenant=${tenant.id}`)).toEqual([' CREDITS', ' TOKENS']);
    expect(await paths('workspace=prod')).toEqual(['/workspace:prod TOKENS']);
  });

  test('match whole segments in any position', async () => {
    expect(await paths('agent=bot')).toEqual(['/agent:bot TOKENS', '/workspace:prod/agent:bot TOKENS']);
    expect(await paths('workspace=PROD&agent=Bot')).toEqual(['/workspace:prod/agent:bot TOKENS']);
    expect(await paths('agent=bo')).toEqual([]);
  });

  test('show debt, an overdraft limit and the mark of a scope over its limit only where there is one', async () => {
    const other = await holdfast.createTenant();
    const overdraft = { overdraft_limit: { unit: 'TOKENS', amount: 5 } };
    await holdfast.createBudget(other, '', 10, overdraft);
    const read = async (): Promise<Json> =>
      expectStatus(await holdfast.call('GET', `/v1/balances?tenant=${other.id}`, { key: other.key }), 200)
        .balances[0];
    const always = ['allocated', 'remaining', 'reserved', 'scope', 'scope_path', 'spent'];
    expect(Object.keys(await read()).sort()).toEqual([...always, 'overdraft_limit'].sort());
    const id = await holdfast.hold(other, 1, { overage_policy: 'ALLOW_WITH_OVERDRAFT' });
    expectStatus(await holdfast.commit(other, id, 14), 200);
    expect(await read()).toMatchObject({
      remaining: { amount: -4 },
      debt: { unit: 'TOKENS', amount: 4 },
      overdraft_limit: { unit: 'TOKENS', amount: 5 },
    });
    const none = { overdraft_limit: { unit: 'TOKENS', amount: 2 } };
    expectStatus(
      await holdfast.admin('PATCH', `/v1/admin/budgets?scope=tenant:${other.id}&unit=TOKENS`, none),
      200,
    );
    expect(await read()).toMatchObject({
      debt: { amount: 4 },
      overdraft_limit: { amount: 2 },
      is_over_limit: true,
    });
  });

  test('include the scopes below when asked', async () => {
    expect(await paths('agent=bot&include_children=true')).toEqual([
      '/agent:bot TOKENS',
      '/agent:bot/toolset:t TOKENS',
      '/workspace:prod/agent:bot TOKENS',
    ]);
    expect(await paths(`tenant=${tenant.id}&include_children=true`)).toHaveLength(7);
  });

  test('come in pages without gaps or repetitions, and a cursor belongs to its query', async () => {
    const found: string[] = [];
    let cursor = '';
    let pages = 0;
    do {
      const query = `tenant=${tenant.id}&include_children=true&limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`;
      const body = expectStatus(
        await holdfast.call('GET', `/v1/balances?${query}`, { key: tenant.key }),
        200,
      );
      expect(body.has_more).toBe('next_cursor' in body);
      found.push(...body.balances.map((balance: Json) => `${balance.scope_path} ${balance.remaining.unit}`));
      cursor = body.next_cursor ?? '';
      pages += 1;
    } while (cursor !== '' && pages < 10);
    expect(pages).toBe(4);
    expect(new Set(found).size).toBe(7);
    const first = await holdfast.call(
      'GET',
      `/v1/balances?tenant=${tenant.id}&include_children=true&limit=1`,
      { key: tenant.key },
    );
    const foreign = `/v1/balances?agent=bot&limit=1&cursor=${first.body.next_cursor}`;
    expect(
      expectRefusal(await holdfast.call('GET', foreign, { key: tenant.key }), 400, 'INVALID_REQUEST').message,
    ).toContain('cursor');
  });

  test('need a subject, of the own tenant', async () => {
    shows('balances of another tenant', 'balance query');
    expectRefusal(await holdfast.call('GET', '/v1/balances', { key: tenant.key }), 400, 'INVALID_REQUEST');
    expectRefusal(
      await holdfast.call('GET', '/v1/balances?tenant=other', { key: tenant.key }),
      403,
      'FORBIDDEN',
    );
  });

  test.each(['limit=0', 'limit=201', 'limit=x', 'include_children=maybe', 'agent=a/b'])(
    'refuse %s',
    async (query) => {
      const answer = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}&${query}`, {
        key: tenant.key,
      });
      expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toContain(query.split('=')[0]);
    },
  );

  test('show a confined key only its own scopes', async () => {
    const key = await holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod/agent:bot'] });
    const answer = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}&include_children=true`, {
      key,
    });
    expect(answer.body.balances.map((balance: Json) => balance.scope_path)).toEqual([
      `tenant:${tenant.id}/workspace:prod/agent:bot`,
    ]);
  });
});

describe('the governance view of balances', () => {
  const ask = (query: string, key = tenant.key): Promise<Answer> =>
    holdfast.call('GET', `/v1/balances?${query}`, { key });
  const scopes = async (query: string, key = tenant.key): Promise<string[]> =>
    expectStatus(await ask(query, key), 200).balances.map(
      ({ scope, unit }: Json) => `${scope.slice(`tenant:${tenant.id}`.length)} ${unit}`,
    );

  test('is asked for by one of its filters, and shows whole ledgers in the order of their scopes', async () => {
    const { balances, has_more: hasMore } = expectStatus(
      await ask(`scope_prefix=tenant:${tenant.id}/workspace:prod`),
      200,
    );
    expect(hasMore).toBe(false);
    expect(balances.map(({ scope }: Json) => scope)).toEqual(
      ['', '/agent:bot', '/agent:bot2'].map((below) => `tenant:${tenant.id}/workspace:prod${below}`),
    );
    const { ledgers } = expectStatus(
      await holdfast.call(
        'GET',
        `/v1/admin/budgets?scope_prefix=tenant:${tenant.id}/workspace:prod&sort_by=scope&sort_dir=asc`,
        { key: tenant.key },
      ),
      200,
    );
    expect(balances).toEqual(ledgers);
    expect(balances[0]).toMatchObject({
      ledger_id: expect.any(String),
      debt: { amount: 0 },
      overdraft_limit: { amount: 0 },
      is_over_limit: false,
      status: 'ACTIVE',
    });
  });

  test('is filtered by unit and walked page by page', async () => {
    expect(await scopes('unit=CREDITS')).toEqual([' CREDITS']);
    const all = await scopes(`tenant_id=${tenant.id}`);
    expect(all).toHaveLength(7);
    const walked: string[] = [];
    for (let cursor = ''; ;) {
      const page = expectStatus(await ask(`tenant_id=${tenant.id}&limit=3${cursor}`), 200);
      walked.push(
        ...page.balances.map(
          ({ scope, unit }: Json) => `${scope.slice(`tenant:${tenant.id}`.length)} ${unit}`,
        ),
      );
      if (page.has_more !== true) {
        break;
      }
      cursor = `&cursor=${page.next_cursor}`;
    }
    expect(walked).toEqual(all);
  });

  test('a confined key gets the figures of the scopes above it with its reserve, and only there', async () => {
    const key = await holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod'] });
    const confined = { id: tenant.id, key };
    const granted = expectStatus(
      await holdfast.reserve(confined, 1, { subject: { tenant: tenant.id, workspace: 'prod' } }),
      200,
    );
    const root = `tenant:${tenant.id}`;
    expect(granted.balances.map((balance: Json) => balance.scope_path)).toEqual([
      root,
      `${root}/workspace:prod`,
    ]);
    const shown = expectStatus(await ask('unit=TOKENS', key), 200).balances as Json[];
    expect(shown.length).toBeGreaterThan(0);
    expect(shown.filter(({ scope }) => !scope.startsWith(`${root}/workspace:prod`))).toEqual([]);
    expectStatus(await holdfast.settle(confined, 'release', granted.reservation_id), 200);
  });

  test("is the key's own, needs its permission and stays inside its scope filter", async () => {
    expectRefusal(await ask('tenant_id=another'), 403, 'FORBIDDEN');
    const other = await holdfast.createTenant();
    expect(expectStatus(await ask(`scope_prefix=tenant:${tenant.id}`, other.key), 200).balances).toEqual([]);
    expectRefusal(
      await ask('unit=TOKENS', await holdfast.createKey(tenant.id, { permissions: ['budgets:read'] })),
      403,
      'FORBIDDEN',
    );
    const confined = await holdfast.createKey(tenant.id, {
      permissions: ['balances:read'],
      scope_filter: ['workspace:prod'],
    });
    expect(await scopes('unit=TOKENS', confined)).toEqual([
      '/workspace:prod TOKENS',
      '/workspace:prod/agent:bot TOKENS',
      '/workspace:prod/agent:bot2 TOKENS',
    ]);
  });

  test('is not mixed with the filters of the other view', async () => {
    for (const query of [
      'unit=TOKENS&agent=bot',
      `tenant_id=${tenant.id}&tenant=${tenant.id}`,
      'scope_prefix=x&include_children=true',
    ]) {
      expect(expectRefusal(await ask(query), 400, 'INVALID_REQUEST').message).toContain('governance view');
    }
    expectRefusal(await ask('unit=EUR'), 400, 'INVALID_REQUEST');
    expect(expectRefusal(await ask('limit=5'), 400, 'INVALID_REQUEST').message).toContain('scope_prefix');
  });
});

describe('the live holds of a budget', () => {
  const path = (of: TestTenant, more = ''): string =>
    `/ops/budgets/holds?scope=tenant:${of.id}&unit=TOKENS${more}`;
  const idsIn = ({ holds }: Json): string[] => holds.map((hold: Json) => hold.reservation_id);

  test('are listed in the order in which their amounts return, with those that only a cleanup ends last, in pages of any size', async () => {
    const other = await holdfast.fundedTenant(100);
    const hold = async (amount: number, ttl: number, grace = 0): Promise<string> =>
      await holdfast.hold(other, amount, { ttl_ms: ttl, grace_period_ms: grace });
    const late = await hold(3, 600_000);
    const early = await hold(2, 300_000, 5000);
    await holdfast.createBudget(other, '', 9, { unit: 'CREDITS' });
    expectStatus(await holdfast.reserve(other, 0, { estimate: { unit: 'CREDITS', amount: 9 } }), 200);
    expectStatus(
      await holdfast.admin('PUT', `/ops/tenants/${other.id}/expiry-policy`, {
        reservation_expiry_policy: 'MANUAL_CLEANUP',
      }),
      200,
    );
    const kept = await hold(4, 60_000);

    const all = expectStatus(await holdfast.admin('GET', path(other)), 200);
    expect(idsIn(all)).toEqual([early, late, kept]);
    expect(all).toMatchObject({ scope: `tenant:${other.id}`, unit: 'TOKENS', has_more: false });
    const [first, , last] = all.holds;
    expect(first).toMatchObject({ amount: { unit: 'TOKENS', amount: 2 }, expires_by_itself: true });
    expect(first.reclaim_at_ms - first.expires_at_ms).toBe(5000);
    expect(last.expires_by_itself).toBe(false);
    expect(all.examined).toBeGreaterThanOrEqual(4);

    const seen: string[] = [];
    for (let cursor = '', more = true; more;) {
      const page = expectStatus(await holdfast.admin('GET', path(other, `&limit=1${cursor}`)), 200);
      seen.push(...idsIn(page));
      [more, cursor] = [page.has_more, `&cursor=${page.next_cursor}`];
    }
    expect(seen).toEqual([early, late, kept]);
  });

  test('require a scope and a unit, and only accept a cursor of the same budget', async () => {
    const page = expectStatus(await holdfast.admin('GET', path(tenant)), 200);
    expect(page).toMatchObject({ holds: [], has_more: false });
    for (const query of [
      'unit=TOKENS',
      'scope=workspace:prod&unit=TOKENS',
      'scope=tenant:acme&unit=EUR',
      'scope=tenant:acme&unit=TOKENS&limit=0',
      `scope=tenant:acme&unit=TOKENS&cursor=odd`,
    ]) {
      expectRefusal(await holdfast.admin('GET', `/ops/budgets/holds?${query}`), 400, 'INVALID_REQUEST');
    }
    expect((await holdfast.call('GET', path(tenant), { key: tenant.key })).status).toBe(401);
  });
});
