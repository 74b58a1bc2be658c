import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';

let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  holdfast = await Holdfast.start();
  tenant = await holdfast.createTenant();
  for (const below of ['', '/workspace:prod', '/workspace:prod/agent:bot', '/workspace:prod/agent:bot2', '/agent:bot', '/agent:bot/toolset:t']) {
    await holdfast.createBudget(tenant, below, 100);
  }
  await holdfast.createBudget(tenant, '', 50, { unit: 'CREDITS' });
});

afterAll(async () => {
  await holdfast.stop();
});

async function paths(query: string): Promise<string[]> {
  const body = expectStatus(await holdfast.call('GET', `/v1/balances?${query}`, { key: tenant.key }), 200);
  return body.balances.map((balance: Json) => `${balance.scope_path.slice(`tenant:${tenant.id}`.length)} ${balance.remaining.unit}`);
}

describe('balances over the wire', () => {
  test('of a scope are its own budgets, in every unit', async () => {
    expect(await paths(`tenant=${tenant.id}`)).toEqual([' CREDITS', ' TOKENS']);
    expect(await paths('workspace=prod')).toEqual(['/workspace:prod TOKENS']);
  });

  test('match whole segments, wherever they stand', async () => {
    expect(await paths('agent=bot')).toEqual(['/agent:bot TOKENS', '/workspace:prod/agent:bot TOKENS']);
    expect(await paths('workspace=PROD&agent=Bot')).toEqual(['/workspace:prod/agent:bot TOKENS']);
    expect(await paths('agent=bo')).toEqual([]);
  });

  test('show debt, an overdraft limit and the mark of a scope over its limit only where there is one', async () => {
    const other = await holdfast.createTenant();
    const overdraft = { overdraft_limit: { unit: 'TOKENS', amount: 5 } };
    await holdfast.createBudget(other, '', 10, overdraft);
    const read = async (): Promise<Json> => expectStatus(await holdfast.call('GET', `/v1/balances?tenant=${other.id}`, { key: other.key }), 200).balances[0];
    const always = ['allocated', 'remaining', 'reserved', 'scope', 'scope_path', 'spent'];
    expect(Object.keys(await read()).sort()).toEqual([...always, 'overdraft_limit'].sort());
    const { reservation_id: id } = expectStatus(await holdfast.reserve(other, 1, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }), 200);
    expectStatus(await holdfast.commit(other, id, 14), 200);
    expect(await read()).toMatchObject({ remaining: { amount: -4 }, debt: { unit: 'TOKENS', amount: 4 }, overdraft_limit: { unit: 'TOKENS', amount: 5 } });
    const none = { overdraft_limit: { unit: 'TOKENS', amount: 2 } };
    expectStatus(await holdfast.admin('PATCH', `/v1/admin/budgets?scope=tenant:${other.id}&unit=TOKENS`, none), 200);
    expect(await read()).toMatchObject({ debt: { amount: 4 }, overdraft_limit: { amount: 2 }, is_over_limit: true });
  });

  test('include what lies below when asked', async () => {
    expect(await paths('agent=bot&include_children=true')).toEqual([
      '/agent:bot TOKENS',
      '/agent:bot/toolset:t TOKENS',
      '/workspace:prod/agent:bot TOKENS',
    ]);
    expect(await paths(`tenant=${tenant.id}&include_children=true`)).toHaveLength(7);
  });

  test('come in pages without gap or repetition, and a cursor belongs to its query', async () => {
    const found: string[] = [];
    let cursor = '';
    let pages = 0;
    do {
      const query = `tenant=${tenant.id}&include_children=true&limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`;
      const body = expectStatus(await holdfast.call('GET', `/v1/balances?${query}`, { key: tenant.key }), 200);
      expect(body.has_more).toBe('next_cursor' in body);
      found.push(...body.balances.map((balance: Json) => `${balance.scope_path} ${balance.remaining.unit}`));
      cursor = body.next_cursor ?? '';
      pages += 1;
    } while (cursor !== '' && pages < 10);
    expect(pages).toBe(4);
    expect(new Set(found).size).toBe(7);
    const first = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}&include_children=true&limit=1`, { key: tenant.key });
    const foreign = `/v1/balances?agent=bot&limit=1&cursor=${first.body.next_cursor}`;
    expect(expectRefusal(await holdfast.call('GET', foreign, { key: tenant.key }), 400, 'INVALID_REQUEST').message).toContain('cursor');
  });

  test('need a subject, of the own tenant', async () => {
    expectRefusal(await holdfast.call('GET', '/v1/balances', { key: tenant.key }), 400, 'INVALID_REQUEST');
    expectRefusal(await holdfast.call('GET', '/v1/balances?tenant=other', { key: tenant.key }), 403, 'FORBIDDEN');
  });

  test.each(['limit=0', 'limit=201', 'limit=x', 'include_children=maybe', 'agent=a/b'])('refuse %s', async (query) => {
    const answer = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}&${query}`, { key: tenant.key });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toContain(query.split('=')[0]);
  });

  test('show a confined key only its own scopes', async () => {
    const key = await holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod/agent:bot'] });
    const answer = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}&include_children=true`, { key });
    expect(answer.body.balances.map((balance: Json) => balance.scope_path)).toEqual([`tenant:${tenant.id}/workspace:prod/agent:bot`]);
  });
});
