import { describe, expect, test } from '@jest/globals';
import { tenantIndexKey, tenantKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { BulkActionTrace } from '../support/bulk-action-trace.js';
import { expectRefusal, expectStatus, newKey, type Answer, type Json } from '../support/holdfast.js';
import { auditEntriesOf } from '../support/stored-audit.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const BULK = '/v1/admin/tenants/bulk-action';

const act = (action: string, filter: object, more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.admin('POST', BULK, { filter, action, idempotency_key: newKey(), ...more });
const patch = (id: string, status: string): Promise<Answer> =>
  on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { status });
const idsIn = (rows: Json[]): string[] => rows.map(({ id }) => id as string).sort();
const statusOf = (id: string): Promise<string | null> =>
  on.stored.redis.hget(on.stored.tenantKey(id), 'status');
const requestIdOf = (answer: Answer): string => answer.headers.get('x-request-id') as string;

/** Tenants that one search matches, and no others. */
async function tenants(count: number): Promise<{ name: string; ids: string[]; filter: object }> {
  const name = `Group ${newKey()}`;
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) {
    ids.push((await on.holdfast.createTenant({ name })).id);
  }
  return { name, ids: ids.sort(), filter: { search: name.toUpperCase() } };
}

interface Told {
  readonly type: string;
  readonly correlation: string | undefined;
  readonly request: string | undefined;
}

async function toldOf(id: string): Promise<Told[]> {
  return (await on.stored.events(id))
    .filter(({ type }) => type.startsWith('tenant.') && type !== 'tenant.created')
    .map(({ type, fields }) => ({ type, correlation: fields['co'], request: fields['rq'] }));
}

describe('a bulk action on tenants', () => {
  test('suspends and reactivates what its filter matches, skips tenants already in that status, and fails closed ones', async () => {
    shows('bulk events', 'bulk tenants', 'bulkActionTenants');
    const { ids, filter } = await tenants(4);
    const [first, second, third, closed] = ids as [string, string, string, string];
    expectStatus(await patch(first, 'SUSPENDED'), 200);
    expectStatus(await patch(closed, 'CLOSED'), 200);

    const suspend = await act('SUSPEND', filter, { expected_count: 4, idempotency_key: 'suspend-1' });
    const ofClosed = { id: closed, error_code: 'INVALID_TRANSITION', message: expect.any(String) };
    expect(expectStatus(suspend, 200)).toEqual({
      action: 'SUSPEND',
      total_matched: 4,
      succeeded: [{ id: second }, { id: third }],
      failed: [ofClosed],
      skipped: [{ id: first, reason: 'ALREADY_IN_TARGET_STATE' }],
      idempotency_key: 'suspend-1',
    });
    expect(await Promise.all(ids.map(statusOf))).toEqual(['SUSPENDED', 'SUSPENDED', 'SUSPENDED', 'CLOSED']);

    const active = expectStatus(await act('REACTIVATE', { ...filter, status: 'SUSPENDED' }), 200);
    expect(idsIn(active.succeeded)).toEqual([first, second, third]);
    expect(active).toMatchObject({ total_matched: 3, failed: [], skipped: [] });
    const again = expectStatus(await act('REACTIVATE', filter), 200);
    expect(again).toMatchObject({ succeeded: [], failed: [ofClosed] });
    expect(idsIn(again.skipped)).toEqual([first, second, third]);

    const id = requestIdOf(suspend);
    expect(await toldOf(second)).toEqual([
      { type: 'tenant.suspended', correlation: `tenant_bulk_action:suspend:${id}`, request: id },
      {
        type: 'tenant.reactivated',
        correlation: expect.stringMatching(/^tenant_bulk_action:reactivate:/),
        request: expect.any(String),
      },
    ]);
    expect((await toldOf(first)).map(({ type }) => type)).toEqual(['tenant.suspended', 'tenant.reactivated']);
    expect((await toldOf(closed)).map(({ type }) => type)).toEqual(['tenant.closed']);
    const events = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?correlation_id=tenant_bulk_action:suspend:${id}`,
    );
    expect((expectStatus(events, 200).events as Json[]).map(({ tenant_id }) => tenant_id).sort()).toEqual([
      second,
      third,
    ]);
  });

  test("closes tenants with all that they own; tenant.closed has the action's correlation id, and what follows has the tenant's", async () => {
    shows('bulk tenants', 'close cascade');
    const { ids, filter } = await tenants(2);
    for (const id of ids) {
      const tenant = { id, key: await on.holdfast.createKey(id) };
      await on.holdfast.createBudget(tenant, '', 100);
      expectStatus(await on.holdfast.reserve(tenant, 10), 200);
    }
    const answer = await act('CLOSE', filter);
    const request = requestIdOf(answer);
    expect(expectStatus(answer, 200)).toMatchObject({ failed: [], skipped: [] });
    expect(idsIn(answer.body.succeeded)).toEqual(ids);
    for (const id of ids) {
      expect(await on.stored.redis.hgetall(on.stored.budgetKey(id))).toMatchObject({
        status: 'CLOSED',
        reserved: '0',
        remaining: '100',
      });
      const told = (await on.stored.events(id)).filter(({ fields }) => fields['rq'] === request);
      expect(told.map(({ type, fields }) => [type, fields['co']])).toEqual([
        ...[
          'reservation.released_via_tenant_cascade',
          'budget.closed_via_tenant_cascade',
          'api_key.revoked_via_tenant_cascade',
          'api_key.revoked_via_tenant_cascade',
        ].map((type) => [type, `tenant_close_cascade:${id}:${request}`]),
        ['tenant.closed', `tenant_bulk_action:close:${request}`],
      ]);
    }
    const again = expectStatus(await act('CLOSE', filter), 200);
    expect(again).toMatchObject({ succeeded: [], failed: [] });
    expect(idsIn(again.skipped)).toEqual(ids);
  });

  test('fails the row of a tenant that owns what cannot be closed, although the tenant is closed', async () => {
    shows('bulk tenants');
    const { ids, filter } = await tenants(2);
    const [broken, sound] = ids as [string, string];
    await on.holdfast.createBudget({ id: broken, key: '' }, '', 100);
    await on.stored.redis.hset(on.stored.budgetKey(broken), 'remaining', 'much');
    const body = expectStatus(await act('CLOSE', filter), 200);
    expect(idsIn(body.succeeded)).toEqual([sound]);
    expect(body.failed).toEqual([{ id: broken, error_code: 'INTERNAL_ERROR', message: expect.any(String) }]);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['CLOSED', 'CLOSED']);
    await on.stored.redis.hset(on.stored.budgetKey(broken), 'remaining', '100');
    expectStatus(await patch(broken, 'CLOSED'), 200);
    expect((await toldOf(broken)).map(({ type }) => type)).toEqual(['tenant.closed']);
  });

  test('fails the row of a damaged record, continues with the others, and counts the outcomes', async () => {
    shows('bulk damaged row');
    const { ids, filter } = await tenants(3);
    const [damaged, first, second] = ids as [string, string, string];
    await on.stored.setTenantStatus(damaged, 'BROKEN');
    const labels = { operation: 'bulkActionTenants' };
    const counted = (outcome: string): Promise<number> =>
      on.holdfast.metric('holdfast_bulk_action_rows_total', { ...labels, outcome });
    const before = await Promise.all(['succeeded', 'failed', 'skipped'].map(counted));
    const body = expectStatus(await act('SUSPEND', filter), 200);
    expect(idsIn(body.succeeded)).toEqual([first, second].sort());
    expect(body.failed).toEqual([{ id: damaged, error_code: 'INTERNAL_ERROR', message: expect.any(String) }]);
    expect(await Promise.all(['succeeded', 'failed', 'skipped'].map(counted))).toEqual([
      (before[0] as number) + 2,
      (before[1] as number) + 1,
      before[2],
    ]);
    expect(await statusOf(damaged)).toBe('BROKEN');
    await on.stored.setTenantStatus(damaged, 'ACTIVE');
  });

  test('has exactly one audit row, which lists the outcome of each', async () => {
    shows('bulk events', 'bulk tenants');
    const { ids, filter } = await tenants(2);
    expectStatus(await patch(ids[0] as string, 'SUSPENDED'), 200);
    const answer = await act('SUSPEND', filter);
    const rows = (await auditEntriesOf(on.holdfast, '*')).filter(
      ({ request_id: id }) => id === requestIdOf(answer),
    );
    expect(rows).toEqual([
      expect.objectContaining({
        operation: 'bulkActionTenants',
        status: 200,
        resource_type: 'tenant',
        tenant_id: '__admin__',
        metadata: expect.objectContaining({
          actor_type: 'admin_on_behalf_of',
          action: 'SUSPEND',
          succeeded_ids: [ids[1]],
          failed_rows: [],
          skipped_rows: [{ id: ids[0], reason: 'ALREADY_IN_TARGET_STATE' }],
          filter,
          duration_ms: expect.any(Number),
          correlation_id: `tenant_bulk_action:suspend:${requestIdOf(answer)}`,
        }),
      }),
    ]);
    const all = await on.holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${requestIdOf(answer)}`);
    expect(expectStatus(all, 200).logs).toHaveLength(1);
  });

  test('filters by parent, status and observe mode as the list does', async () => {
    shows('bulk filters', 'observe mode filters');
    const { name, ids } = await tenants(2);
    await on.holdfast.createTenant({ name, parent_tenant_id: ids[0] });
    const child = await on.holdfast.createTenant({ name, parent_tenant_id: ids[0], observe_mode: 'OBSERVE' });
    const filter = { parent_tenant_id: ids[0], status: 'ACTIVE', observe_mode: 'OBSERVE' };
    const body = expectStatus(await act('SUSPEND', filter, { expected_count: 1 }), 200);
    expect(body.succeeded).toEqual([{ id: child.id }]);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['ACTIVE', 'ACTIVE']);
  });
});

describe('a bulk action on tenants is refused', () => {
  interface Case {
    readonly what: string;
    readonly more: Record<string, unknown>;
    readonly refusal: [number, string];
  }
  // In order of precedence: each request has its own mistake and those of all that follow.
  const wrong = {
    count: { expected_count: 7 },
    used: { idempotency_key: 'used-by-another-action' },
    empty: { filter: {} },
    action: { action: 'DELETE' },
  };
  test.each<Case>([
    {
      what: 'for its form first',
      more: { ...wrong.count, ...wrong.used, ...wrong.empty, ...wrong.action },
      refusal: [400, 'INVALID_REQUEST'],
    },
    {
      what: 'then for an empty filter',
      more: { ...wrong.count, ...wrong.used, ...wrong.empty },
      refusal: [400, 'INVALID_REQUEST'],
    },
    {
      what: 'then for a key that another action used',
      more: { ...wrong.count, ...wrong.used },
      refusal: [409, 'IDEMPOTENCY_MISMATCH'],
    },
    { what: 'then for the count', more: wrong.count, refusal: [409, 'COUNT_MISMATCH'] },
  ])('$what', async ({ more, refusal: [status, code] }) => {
    shows('bulk refusals');
    const { ids, filter } = await tenants(1);
    expectStatus(await act('REACTIVATE', { search: 'nobody-has-this' }, wrong.used), 200);
    expectRefusal(await act('SUSPEND', filter, more), status, code);
    expect(await statusOf(ids[0] as string)).toBe('ACTIVE');
  });

  test.each<[string, Record<string, unknown>]>([
    ['a filter without criteria', { filter: { search: '' } }],
    ['an unknown observe mode', { filter: { observe_mode: 'SHADOW' } }],
    ['an unknown part of the filter', { filter: { tenant_id: 'x' } }],
    ['an unknown status', { filter: { status: 'GONE' } }],
    ['a long search', { filter: { search: 'x'.repeat(129) } }],
    ['no filter', { filter: undefined }],
    ['no idempotency key', { idempotency_key: undefined }],
    ['an empty idempotency key', { idempotency_key: '' }],
    ['an endless idempotency key', { idempotency_key: 'x'.repeat(129) }],
    ['a negative count', { expected_count: -1 }],
  ])('with %s', async (_what, more) => {
    shows('bulk refusals');
    expectRefusal(await act('SUSPEND', { search: 'x' }, more), 400, 'INVALID_REQUEST');
  });

  test('when the number of matches is not the expected one, and says how many there are', async () => {
    shows('bulk refusals');
    const { ids, filter } = await tenants(2);
    const refusal = expectRefusal(await act('CLOSE', filter, { expected_count: 1 }), 409, 'COUNT_MISMATCH');
    expect(refusal.details).toEqual({ total_matched: 2, expected_count: 1 });
    expect(await Promise.all(ids.map(statusOf))).toEqual(['ACTIVE', 'ACTIVE']);
  });

  test('as a whole beyond 500 matches, with their number', async () => {
    shows('bulk refusals');
    const { name, ids, filter } = await tenants(1);
    const template = await on.stored.redis.hgetall(on.stored.tenantKey(ids[0] as string));
    const more = Array.from(
      { length: 500 },
      (_, index) => `many-${index}-${newKey().slice(0, 8).toLowerCase()}`,
    );
    // No pipeline, because on a cluster these partitions are on several masters.
    await Promise.all(
      more.flatMap((id) => {
        const tag = on.stored.tagOf(id);
        return [
          on.stored.redis.hset(tenantKey(tag, id), { ...template, tenant_id: id, name }),
          on.stored.redis.zadd(tenantIndexKey(tag), 1, id),
        ];
      }),
    );
    const refusal = expectRefusal(await act('SUSPEND', filter), 400, 'LIMIT_EXCEEDED');
    expect(refusal.details).toEqual({ total_matched: 501, limit: 500 });
    expect(await statusOf(ids[0] as string)).toBe('ACTIVE');
    expectStatus(await patch(ids[0] as string, 'SUSPENDED'), 200);
    const body = expectStatus(
      await act('SUSPEND', { ...filter, status: 'ACTIVE' }, { expected_count: 500 }),
      200,
    );
    expect(body.succeeded).toHaveLength(500);
  });

  test('with an API key, whatever it may do, and without any', async () => {
    shows('bulk operators only');
    const tenant = await on.holdfast.createTenant();
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['admin:read', 'admin:write'] });
    const body = { filter: { search: tenant.id }, action: 'SUSPEND', idempotency_key: newKey() };
    expectRefusal(await on.holdfast.call('POST', BULK, { key, body }), 401, 'UNAUTHORIZED');
    expectRefusal(await on.holdfast.call('POST', BULK, { body }), 401, 'UNAUTHORIZED');
    expect(await statusOf(tenant.id)).toBe('ACTIVE');
  });
});

describe('the same bulk action on tenants again', () => {
  test('is answered with the first response, changes nothing, and is counted', async () => {
    shows('bulk idempotency');
    const { ids, filter } = await tenants(2);
    const body = { idempotency_key: newKey(), expected_count: 2 };
    const counted = (outcome: string): Promise<number> =>
      on.holdfast.metric('holdfast_bulk_actions_total', { operation: 'bulkActionTenants', outcome });
    const [applied, replayed] = [await counted('applied'), await counted('replayed')];
    const first = await act('SUSPEND', filter, body);
    expectStatus(first, 200);
    expectStatus(await patch(ids[0] as string, 'ACTIVE'), 200);
    const again = await act('SUSPEND', filter, body);
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(await statusOf(ids[0] as string)).toBe('ACTIVE');
    expect([await counted('applied'), await counted('replayed')]).toEqual([applied + 1, replayed + 1]);
    for (const [action, other, more] of [
      ['CLOSE', filter, body],
      ['SUSPEND', { ...filter, status: 'ACTIVE' }, body],
      ['SUSPEND', filter, { ...body, expected_count: 3 }],
    ] as const) {
      expectRefusal(await act(action, other, more), 409, 'IDEMPOTENCY_MISMATCH');
    }
  });

  test('by several at once happens once, and all get one response', async () => {
    shows('bulk idempotency');
    const { ids, filter } = await tenants(5);
    const body = { idempotency_key: newKey() };
    const answers = await Promise.all(Array.from({ length: 4 }, () => act('SUSPEND', filter, body)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(idsIn(expectStatus(answers[0] as Answer, 200).succeeded)).toEqual(ids);
    for (const id of ids) {
      expect(await toldOf(id)).toHaveLength(1);
    }
  });

  test.each([
    ['SUSPEND', 'SUSPENDED', 'tenant.suspended'],
    ['CLOSE', 'CLOSED', 'tenant.closed'],
  ])(
    "continues with a %s whose process died between rows, under the first one's correlation",
    async (action, status, told) => {
      shows('bulk idempotency');
      const { ids, filter } = await tenants(4);
      const requestId = `req_${'e'.repeat(23)}${action === 'CLOSE' ? '1' : '2'}`;
      const correlation = `tenant_bulk_action:${action.toLowerCase()}:${requestId}`;
      const body = { idempotency_key: newKey() };
      const resumed = { operation: 'bulkActionTenants', outcome: 'resumed' };
      const before = await on.holdfast.metric('holdfast_bulk_actions_total', resumed);
      const scripts = new ScriptRegistry(on.stored.redis);
      const trace = new BulkActionTrace(scripts, on.stored, requestId, correlation);
      await trace.begin('tenants', { action, filter, ...body }, ids);
      await trace.changeTenants(ids.slice(0, 2), status);

      const response = expectStatus(await act(action, filter, body), 200);
      expect(idsIn(response.succeeded)).toEqual(ids);
      expect(response).toMatchObject({ total_matched: 4, failed: [], skipped: [] });
      for (const id of ids) {
        expect(await toldOf(id)).toEqual([{ type: told, correlation, request: requestId }]);
      }
      const rows = await auditEntriesOf(on.holdfast, '*');
      expect(rows.filter(({ request_id: id }) => id === requestId)).toHaveLength(1);
      expect(await on.holdfast.metric('holdfast_bulk_actions_total', resumed)).toBe(before + 1);
    },
  );
});
