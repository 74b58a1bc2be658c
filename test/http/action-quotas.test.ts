import { beforeAll, describe, expect, test } from '@jest/globals';
import { actionCounterIndexKey, actionCountersKey, tagOfTenant } from '../../src/redis/keyspace.js';
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
const [PARTITIONS, DAY_MS] = [64, 86_400_000];

const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
const list = (tenant: TestTenant, filter = '', key = tenant.key): Promise<Answer> =>
  on.holdfast.call('GET', `${COUNTERS}?${filter}`, { key });
const counters = async (tenant: TestTenant, filter?: string): Promise<Json[]> =>
  expectStatus(await list(tenant, filter), 200).counters as Json[];
const windowsOf = async (tenant: TestTenant, filter?: string): Promise<string[]> =>
  (await counters(tenant, filter)).map(({ window, action_kind: kind }) => `${window} ${kind}`);

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
    tenant = await on.holdfast.fundedTenant();
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
    const other = await on.holdfast.fundedTenant();
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

describe('a long list of counters', () => {
  const KINDS = 10_150;
  const kindAt = (place: number): string => `k.${String(place).padStart(5, '0')}`;
  let tenant: TestTenant;

  beforeAll(async () => {
    tenant = await on.holdfast.createTenant();
    const tag = tagOfTenant(tenant.id, PARTITIONS);
    const today = Math.floor(Date.now() / DAY_MS);
    // Tomorrow's as well, because midnight may pass during the test.
    for (const day of [today, today + 1]) {
      const fields = Array.from({ length: KINDS }, (_, place) => `${rootOf(tenant)}|d|${kindAt(place)}`);
      const values = fields.flatMap((field) => [field, `${day}|1|${day * DAY_MS}|10|pol_x||`]);
      await on.stored.redis.hset(actionCountersKey(tag, tenant.id, day), ...values);
      const entries = fields.flatMap((field) => ['0', field]);
      await on.stored.redis.zadd(actionCounterIndexKey(tag, tenant.id, day), ...entries);
    }
  });

  test('is read a hundred at a time, in order', async () => {
    shows('listActionQuotaCounters');
    const first = expectStatus(await list(tenant, 'limit=200'), 200);
    const next = expectStatus(await list(tenant, `limit=150&cursor=${first.next_cursor}`), 200);
    const kinds = [...first.counters, ...next.counters].map(({ action_kind: kind }: Json) => kind as string);
    expect(kinds).toEqual(Array.from({ length: 350 }, (_, place) => kindAt(place)));
    expect([first.has_more, next.has_more]).toEqual([true, true]);
  });

  test('has pages that end after 10,000 counters that do not match', async () => {
    shows('listActionQuotaCounters');
    const kind = kindAt(KINDS - 1);
    const first = expectStatus(await list(tenant, `action_kind=${kind}`), 200);
    expect([first.counters, first.has_more]).toEqual([[], true]);
    const next = expectStatus(await list(tenant, `action_kind=${kind}&cursor=${first.next_cursor}`), 200);
    expect(next.counters).toMatchObject([{ action_kind: kind, used: 1 }]);
    expect(next.has_more).toBe(false);
  });
});

describe('the reset of a counter', () => {
  const RUN = 'run 1/2';
  const reset = (body: Json): Promise<Answer> => on.holdfast.admin('POST', `${COUNTERS}/reset`, body);

  /** A tenant with one quota of two calls, and the key fields of its counter. */
  async function counting(
    window: string,
    rule: Json = { action_quotas: [{ ...quota(window), max_calls: 2, threshold_pct: 0.9 }] },
  ): Promise<{ tenant: TestTenant; policy: string; first: string; fields: Json; counter: Json }> {
    const tenant = await on.holdfast.fundedTenant();
    const policy = await limited(tenant, rule, rootOf(tenant));
    const first = await reserve(tenant, 'a', RUN);
    await reserve(tenant, 'a', RUN);
    const [counter] = (await counters(tenant)) as [Json];
    const { scope, action_kind, risk_class, window_key } = counter;
    const fields = { tenant_id: tenant.id, scope, action_kind, risk_class, window, window_key };
    return { tenant, policy, first, fields, counter };
  }

  const refusedReserve = async (tenant: TestTenant): Promise<void> => {
    await expect(reserve(tenant, 'a', RUN)).rejects.toThrow('ACTION_QUOTA_EXCEEDED');
  };

  test.each(['per_day_tumbling', 'per_tenant_per_day', 'per_run'])(
    '%s lets actions pass again, which are counted from zero',
    async (window) => {
      shows('quota counter reset', 'resetActionQuotaCounter');
      const { tenant, fields, counter } = await counting(window);
      await refusedReserve(tenant);
      const done = expectStatus(await reset(fields), 200);
      const { last_incremented_at: last, expires_at: end, ...rest } = counter;
      const refreshed = done.counter.expires_at;
      expect(done).toEqual({
        counter: { ...rest, used: 0, remaining: 2, expires_at: refreshed },
        previous_used: 2,
      });
      expect(window === 'per_run' ? refreshed > end : refreshed === end).toBe(true);
      expect(Date.parse(last)).not.toBeNaN();
      expect(await counters(tenant)).toEqual([]);
      await reserve(tenant, 'a', RUN);
      expect(await counters(tenant)).toMatchObject([{ used: 1 }]);
      await reserve(tenant, 'a', RUN);
      await refusedReserve(tenant);
    },
  );

  test('is of a risk class, too, and finds the scope in capitals', async () => {
    shows('quota counter reset');
    const risks = [{ risk_class: 'side_effect', max_calls: 2, window: 'per_day_tumbling' }];
    const { tenant, fields } = await counting('per_day_tumbling', { risk_class_quotas: risks });
    expect(fields).toMatchObject({ action_kind: '__risk__', risk_class: 'side_effect' });
    const capitals = { ...fields, scope: (fields.scope as string).toUpperCase() };
    expect(expectStatus(await reset(capitals), 200)).toMatchObject({
      counter: { action_kind: '__risk__', risk_class: 'side_effect', scope: fields.scope },
      previous_used: 2,
    });
    await reserve(tenant, 'a', RUN);
  });

  test('ignores releases of earlier reserves, and subtracts those of later ones from the new count', async () => {
    shows('quota counter reset');
    const { tenant, first, fields } = await counting('per_run');
    expectStatus(await reset(fields), 200);
    expect(expectStatus(await reset(fields), 200).previous_used).toBe(0);
    const later = await reserve(tenant, 'a', RUN);
    expectStatus(await on.holdfast.settle(tenant, 'release', first), 200);
    expect(await counters(tenant)).toMatchObject([{ used: 1 }]);
    expectStatus(await on.holdfast.settle(tenant, 'release', later), 200);
    expect(await counters(tenant, 'include_zero=true')).toMatchObject([{ used: 0 }]);
  });

  test('is reported once, in an event and a row, with the former count, who did it and why', async () => {
    shows('quota counter reset is told');
    const { tenant, policy, fields } = await counting('per_run');
    const reason = 'each call was counted twice';
    const answer = await reset({ ...fields, reason });
    expectStatus(answer, 200);
    const read = `/v1/admin/events?tenant_id=${tenant.id}`;
    const events = (expectStatus(await on.holdfast.admin('GET', read), 200).events as Json[]).filter(
      ({ event_type: type }: Json) => (type as string).startsWith('quota.'),
    );
    const [told, approaching] = events as [Json, Json];
    expect(events).toHaveLength(2);
    expect(told).toMatchObject({
      event_type: 'quota.counter_reset',
      category: 'policy',
      scope: rootOf(tenant),
      actor: { type: 'admin' },
      correlation_id: approaching.correlation_id,
      request_id: answer.headers.get('x-request-id'),
    });
    const { tenant_id, scope, action_kind, window, window_key } = fields;
    const key = { scope, action_kind, window, window_key };
    expect(told.data).toEqual({
      ...key,
      tenant_id,
      previous_used: 2,
      limit: 2,
      actor_id: 'admin',
      reason,
      policy_id: policy,
    });
    const rows = `/v1/admin/audit/logs?request_id=${answer.headers.get('x-request-id')}`;
    expect(expectStatus(await on.holdfast.admin('GET', rows), 200).logs).toMatchObject([
      {
        operation: 'resetActionQuotaCounter',
        tenant_id: tenant.id,
        resource_type: 'action_quota_counter',
        resource_id: told.correlation_id,
        status: 200,
        metadata: { ...key, previous_used: expect.anything(), reason },
      },
    ]);
    // Once per window, reset or not.
    await reserve(tenant, 'a', RUN);
    await reserve(tenant, 'a', RUN);
    const all = expectStatus(await on.holdfast.admin('GET', read), 200).events as Json[];
    expect(all.filter(({ event_type: type }: Json) => type === 'quota.threshold_approaching')).toHaveLength(
      1,
    );
  });

  test('is refused where the key fields are no counter, and changes nothing', async () => {
    shows('quota counter reset', 'quota counter reset access');
    const { tenant, fields } = await counting('per_day_tumbling');
    const notFound: Json[] = [
      { tenant_id: 'nobody' },
      { tenant_id: 'no tenant' },
      { scope: `${rootOf(tenant)}/agent:a` },
      { scope: `${rootOf(tenant)}|d|db.write` },
      { action_kind: 'db.read' },
      { window: 'per_tenant_per_day' },
      { window: 'per_hour_tumbling' },
      { window: 'per_run' },
      { window_key: '1970-01-01' },
      { window_key: '' },
    ];
    for (const more of notFound) {
      expectRefusal(await reset({ ...fields, ...more }), 404, 'NOT_FOUND');
    }
    const nobodys = await reset({ ...fields, tenant_id: undefined });
    expectRefusal(nobodys, 400, 'INVALID_REQUEST');
    expect(nobodys.body.message).toBe('missing_required_field: tenant_id');
    const invalid: Json[] = [
      { tenant_id: 7 },
      { scope: undefined },
      { scope: '' },
      { action_kind: undefined },
      { action_kind: 'a'.repeat(65) },
      { action_kind: '__risk__' },
      { action_kind: '__risk__:side_effect' },
      { risk_class: 'side_effect' },
      { action_kind: '__risk__', risk_class: 'grave' },
      { window: 'per_year' },
      { window_key: undefined },
      { window_key: 'a'.repeat(257) },
      { reason: 'a'.repeat(513) },
      { used: 0 },
    ];
    for (const more of invalid) {
      expectRefusal(await reset({ ...fields, ...more }), 400, 'INVALID_REQUEST');
    }
    const all = await on.holdfast.createKey(tenant.id, { permissions: ['admin:write'] });
    for (const key of [tenant.key, all]) {
      const answer = await on.holdfast.call('POST', `${COUNTERS}/reset`, { key, body: fields });
      expectRefusal(answer, 401, 'UNAUTHORIZED');
    }
    expect(await counters(tenant)).toMatchObject([{ used: 2 }]);
  });
});
