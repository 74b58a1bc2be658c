import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const COUNTERS = '/v1/admin/action-quota-counters';

const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
const list = (tenant: TestTenant, filter = '', key = tenant.key): Promise<Answer> =>
  on.holdfast.call('GET', `${COUNTERS}?${filter}`, { key });
const counters = async (tenant: TestTenant, filter?: string): Promise<Json[]> =>
  expectStatus(await list(tenant, filter), 200).counters as Json[];
const windowsOf = async (tenant: TestTenant, filter?: string): Promise<string[]> =>
  (await counters(tenant, filter)).map(({ window, action_kind: kind }) => `${window} ${kind}`);

async function funded(): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  await on.holdfast.createBudget(tenant, '', 1000);
  return tenant;
}

async function limited(tenant: TestTenant, rules: Record<string, unknown>, pattern: string): Promise<string> {
  const body = { name: newKey(), scope_pattern: pattern, ...rules };
  return expectStatus(await on.holdfast.call('POST', '/v1/admin/policies', { key: tenant.key, body }), 201)
    .policy_id as string;
}

/** Reserves for an agent in a run. */
async function reserve(tenant: TestTenant, agent: string, run: string): Promise<string> {
  const more = { subject: { agent, dimensions: { run_id: run } }, action: { kind: 'db.write', name: 'x' } };
  const body = reserveBody(tenant, 1, more);
  const answer = await on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body,
    extended: true,
  });
  return expectStatus(answer, 200).reservation_id as string;
}

const quota = (window: string): Json => ({ action_kind: 'db.write', max_calls: 10, window });

describe('the list of counters', () => {
  let tenant: TestTenant;
  let policy: string;
  let released: string;

  beforeAll(async () => {
    tenant = await funded();
    policy = await limited(
      tenant,
      {
        action_quotas: ['per_day_tumbling', 'per_tenant_per_day', 'per_run'].map(quota),
        risk_class_quotas: [{ risk_class: 'side_effect', max_calls: 100, window: 'per_day_tumbling' }],
      },
      `${rootOf(tenant)}/*`,
    );
    await reserve(tenant, 'a', 'run 1');
    await reserve(tenant, 'a', 'run 1');
    released = await reserve(tenant, 'b', 'run|2');
    expectStatus(await on.holdfast.settle(tenant, 'release', released), 200);
  });

  test('shows what each counts, of how many, and until when', async () => {
    shows('quota counters', 'listActionQuotaCounters');
    const rows = await counters(tenant, 'scope=tenant:' + tenant.id + '/agent:a&window=per_day_tumbling');
    const scope = `${rootOf(tenant)}/agent:a`;
    const [risk, kind] = rows as [Json, Json];
    const day = String(kind.last_incremented_at).slice(0, 10);
    const common = { scope, scope_path: scope, window: 'per_day_tumbling', used: 2, policy_id: policy };
    const next = new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString();
    expect(rows).toEqual([
      {
        ...common,
        action_kind: '__risk__',
        risk_class: 'side_effect',
        window_key: day,
        limit: 100,
        remaining: 98,
        expires_at: next,
        last_incremented_at: risk.last_incremented_at,
      },
      {
        ...common,
        action_kind: 'db.write',
        window_key: day,
        limit: 10,
        remaining: 8,
        expires_at: next,
        last_incremented_at: kind.last_incremented_at,
      },
    ]);
    const [run] = (await counters(tenant, 'window=per_run')) as [Json];
    expect(run).toMatchObject({ scope, window: 'per_run', window_key: 'run 1', used: 2, remaining: 8 });
    expect(Date.parse(run.expires_at) - Date.parse(run.last_incremented_at)).toBe(86_400_000);
  });

  test('is filtered by scope, kind, window and run', async () => {
    shows('quota counters');
    const all = await windowsOf(tenant);
    expect([...all].sort()).toEqual([
      'per_day_tumbling __risk__',
      'per_day_tumbling __risk__',
      'per_day_tumbling db.write',
      'per_day_tumbling db.write',
      'per_run db.write',
      'per_tenant_per_day db.write',
    ]);
    expect(await windowsOf(tenant, 'action_kind=db.write&window=per_tenant_per_day')).toEqual([
      'per_tenant_per_day db.write',
    ]);
    expect(await windowsOf(tenant, 'action_kind=__risk__')).toHaveLength(2);
    expect(await windowsOf(tenant, `scope=${rootOf(tenant)}/agent:b`)).toHaveLength(2);
    expect(await windowsOf(tenant, 'scope=tenant:other')).toEqual([]);
    expect(await windowsOf(tenant, 'run_id=run%201')).toEqual(['per_run db.write']);
    expect(await windowsOf(tenant, `run_id=run%201&scope=${rootOf(tenant)}/agent:b`)).toEqual([]);
    expect(await windowsOf(tenant, 'run_id=run')).toEqual([]);
    expect(await windowsOf(tenant, 'run_id=run%201&window=per_day_tumbling')).toEqual([]);
    expect(await windowsOf(tenant, 'run_id=run%7C2')).toEqual([]);
    const [zero] = await counters(tenant, 'run_id=run%7C2&include_zero=true');
    expect(zero).toMatchObject({ window_key: 'run|2', used: 0, remaining: 10 });
    expect(zero).not.toHaveProperty('last_incremented_at');
  });

  test('is read page by page', async () => {
    shows('listActionQuotaCounters');
    const all = await counters(tenant, 'include_zero=true');
    expect(all).toHaveLength(7);
    const read: Json[] = [];
    let cursor = '';
    for (let page = 1; page <= 4; page += 1) {
      const body = expectStatus(await list(tenant, `include_zero=true&limit=2${cursor}`), 200);
      expect([body.counters.length, body.has_more]).toEqual(page < 4 ? [2, true] : [1, false]);
      read.push(...(body.counters as Json[]));
      cursor = `&cursor=${body.next_cursor}`;
    }
    expect(read).toEqual(all);
    const { next_cursor: first } = expectStatus(await list(tenant, 'limit=1'), 200);
    expectRefusal(await list(tenant, `window=per_run&cursor=${first}`), 400, 'INVALID_REQUEST');
  });

  test.each(['limit=0', 'limit=201', 'window=per_year', 'include_zero=2', `run_id=${'a'.repeat(257)}`])(
    'refuses %s',
    async (query) => {
      expectRefusal(await list(tenant, query), 400, 'INVALID_REQUEST');
    },
  );

  test('is of the tenant of an API key, inside its scope filter, and of any tenant for an operator', async () => {
    shows('quota counter access');
    const other = await funded();
    expect(await counters(other, `tenant_id=${tenant.id}`)).toEqual([]);
    const confined = await on.holdfast.createKey(tenant.id, { scope_filter: ['agent:b'] });
    expect(expectStatus(await list(tenant, '', confined), 200).counters).toHaveLength(2);
    const asAdmin = (query: string): Promise<Answer> => on.holdfast.admin('GET', `${COUNTERS}${query}`);
    expectRefusal(await asAdmin(''), 400, 'INVALID_REQUEST');
    expect(expectStatus(await asAdmin(`?tenant_id=${tenant.id}`), 200).counters).toHaveLength(6);
    expect(expectStatus(await asAdmin('?tenant_id=nobody'), 200).counters).toEqual([]);
  });

  test('needs its permission, and says that balances:read is deprecated for it', async () => {
    shows('quota counter access');
    const as = async (...permissions: string[]): Promise<Answer> =>
      list(tenant, '', await on.holdfast.createKey(tenant.id, { permissions }));
    const name = 'x-cycles-permission-deprecated';
    const told = (): Promise<number> =>
      on.holdfast.metric('holdfast_auth_deprecated_permissions_total', { permission: 'balances:read' });
    const before = await told();
    for (const permissions of [
      ['action_quotas:read'],
      ['admin:read'],
      ['action_quotas:read', 'balances:read'],
    ]) {
      const answer = await as(...permissions);
      expectStatus(answer, 200);
      expect(answer.headers.get(name)).toBeNull();
    }
    expect(await told()).toBe(before);
    const answer = await as('balances:read');
    expectStatus(answer, 200);
    expect(answer.headers.get(name)).toBe('balances:read');
    expect(await told()).toBe(before + 1);
    for (const permissions of [['policies:read'], ['admin:write']]) {
      expectRefusal(await as(...permissions), 403, 'INSUFFICIENT_PERMISSIONS');
    }
    expectRefusal(
      await on.holdfast.call('GET', `${COUNTERS}?tenant_id=${tenant.id}`, {
        headers: { 'x-admin-api-key': `${ADMIN_API_KEY}x` },
      }),
      401,
      'UNAUTHORIZED',
    );
  });
});
