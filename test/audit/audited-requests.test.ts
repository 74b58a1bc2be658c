import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { briefAuditLogKey, SYSTEM_OWNER, tagOfTenant } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type Json,
} from '../support/holdfast.js';
import { eventually } from '../support/eventually.js';
import { nextMillisecond } from '../support/server-time.js';
import { startStore } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

const SYSTEM_TAG = tagOfTenant(SYSTEM_OWNER, 64);
const LOGS = '/v1/admin/audit/logs';

const writes = (holdfast: Holdfast, pathClass: string, outcome: string): Promise<number> =>
  holdfast.metric('cycles_admin_audit_writes_total', { path_class: pathClass, outcome });

describe('rows of failed requests', () => {
  const on = useGovernance(
    {},
    {
      TRUST_PROXY: '127.0.0.1',
      RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '12',
      // A waiting request must not be refused before its client disconnects.
      queryQueueMs: 30_000,
    },
  );
  const logs = async (query: string): Promise<Json[]> =>
    expectStatus(await on.holdfast.admin('GET', `${LOGS}?${query}`), 200).logs;
  const from = (ip: string, headers: Record<string, string> = {}): Promise<Answer> =>
    on.holdfast.call('GET', '/v1/admin/tenants', { headers: { 'x-forwarded-for': ip, ...headers } });

  /**
   * Rows are written after their responses, to two logs. Rows of the same millisecond have no order across
   * the logs.
   */
  const nextMillisecondOfRows = async (): Promise<void> => {
    await on.holdfast.app.get(AuditedRequests).settled();
    await nextMillisecond(on.stored.redis);
  };

  // The tests say when a window ends. It must not end a minute after the start, too, wherever they are then.
  beforeAll(() => {
    const { timer } = on.holdfast.app.get<AuditedRequests, { timer: NodeJS.Timeout }>(AuditedRequests);
    clearInterval(timer);
  });
  afterEach(() => on.holdfast.app.get(AuditedRequests).endWindow());

  test('are found by their status, their range of statuses and their code', async () => {
    shows('error code filters');
    const tenant = await on.holdfast.createTenant();
    const asTenant = async (path: string): Promise<Answer> => {
      const answer = await on.holdfast.call('GET', path, { key: tenant.key });
      await nextMillisecondOfRows();
      return answer;
    };
    const bad = await asTenant('/v1/admin/budgets?limit=0');
    const missing = await asTenant(`/v1/admin/budgets/lookup?scope=tenant:${tenant.id}&unit=TOKENS`);
    const denied = await asTenant('/v1/webhooks');
    const seen = await asTenant('/v1/admin/budgets');
    const found = async (query: string): Promise<Json[]> =>
      (await logs(`tenant_id=${tenant.id}&${query}`)).map(({ request_id: id }: Json) => id);
    const [badId, missingId, deniedId, seenId] = [bad, missing, denied, seen].map(({ headers }) =>
      headers.get('x-request-id'),
    );
    expect(await found('status_min=400&status_max=499')).toEqual([deniedId, missingId, badId]);
    expect(await found('status=404')).toEqual([missingId]);
    expect(await found('error_code=INVALID_REQUEST,INSUFFICIENT_PERMISSIONS')).toEqual([deniedId, badId]);
    expect(await found('error_code=INVALID_REQUEST&status_min=401')).toEqual([]);
    expect(
      await found(
        'error_code_exclude=INVALID_REQUEST,BUDGET_NOT_FOUND&operation=listBudgets,GET:/v1/webhooks',
      ),
    ).toEqual([seenId, deniedId]);
    expect(await found('search=insufficient_perm')).toEqual([deniedId]);
    expect(await found(`error_code=INVALID_REQUEST&search=${'tenant'}`)).toEqual([]);
    expect(await found('sort_by=status&sort_dir=desc&limit=3')).toEqual([missingId, deniedId, badId]);
    expect((await logs(`request_id=${missingId}`))[0]).toMatchObject({
      key_id: expect.stringMatching(/^key_/),
      error_code: 'BUDGET_NOT_FOUND',
      resource_type: 'budget',
    });
  });

  test('without valid credentials say where they came from, each address a few times, and count the rest', async () => {
    shows('unauth sentinel');
    const sampled = await writes(on.holdfast, 'unauthenticated', 'sampled-out');
    const answers: Answer[] = [];
    for (let attempt = 0; attempt < 14; attempt += 1) {
      const headers = { 'user-agent': `scanner ${'x'.repeat(400)}`, 'x-admin-api-key': 'a guess' };
      answers.push(await from('203.0.113.7', headers));
    }
    // The last two were throttled, so they have no row and are not counted here.
    expect(answers.map(({ status }) => status)).toEqual([...new Array<number>(12).fill(401), 429, 429]);
    on.holdfast.app.get(AuditedRequests).endWindow();
    const rows = (await logs('tenant_id=__unauth__&limit=100')).filter(
      ({ source_ip: ip }: Json) => ip === '203.0.113.7',
    );
    expect(rows).toHaveLength(6);
    expect(rows[0]).toMatchObject({
      operation: 'summary:unauthenticated',
      status: 401,
      metadata: { not_listed: 7, window_ms: 60_000 },
    });
    expect(rows[1]).toMatchObject({
      operation: 'GET:/v1/admin/tenants',
      tenant_id: '__unauth__',
      status: 401,
      error_code: 'UNAUTHORIZED',
    });
    expect(rows[1].user_agent).toHaveLength(256);
    expect(await writes(on.holdfast, 'unauthenticated', 'sampled-out')).toBe(sampled + 7);
  });

  test('of a flood from many addresses are a bounded number, however many there are', async () => {
    shows('unauth sentinel');
    const before = await on.stored.redis.xlen(briefAuditLogKey(SYSTEM_TAG));
    const lengthOf = (): Promise<number> => on.stored.redis.xlen(briefAuditLogKey(SYSTEM_TAG));
    for (let batch = 0; batch < 20; batch += 1) {
      await Promise.all(Array.from({ length: 50 }, (_, index) => from(`198.51.${batch}.${index}`)));
    }
    on.holdfast.app.get(AuditedRequests).endWindow();
    await on.holdfast.app.get(AuditedRequests).settled();
    // Sixty rows, ten sources with their own summary, and one summary for all the others.
    expect((await lengthOf()) - before).toBe(71);
    const [, summary] = await logs('tenant_id=__unauth__&search=summary&sort_dir=desc&limit=2');
    const all = (await logs('tenant_id=__unauth__&search=summary&limit=11')).reduce(
      (sum, { metadata }: Json) => sum + (metadata.not_listed as number),
      0,
    );
    expect(summary.metadata.not_listed).toBe(1);
    expect(all).toBe(940);
  });

  test.each([
    ['GET', '/v1/%61dmin/audit/logs', 401, 'GET:/v1/admin/audit/logs'],
    ['GET', '/%6fps/verify', 401, 'GET:/ops/verify'],
  ])('are written for %s %s, which addresses the same operation', async (method, path, status, operation) => {
    const answer = await fetch(on.holdfast.url + path, { method });
    expect(answer.status).toBe(status);
    expect(await logs(`request_id=${answer.headers.get('x-request-id')}`)).toMatchObject([
      { operation, status, tenant_id: '__unauth__' },
    ]);
  });

  test('are not written for a list whose client hangs up before it is read, which is counted', async () => {
    const { signal } = new AbortController();
    const { queries } = on.holdfast.app.get(RedisService);
    const abandoned = await on.holdfast.metric('holdfast_queries_abandoned_total');
    const held = await Promise.all(Array.from({ length: 4 }, () => queries.admit('', signal)));
    const headers = { 'x-admin-api-key': ADMIN_API_KEY, 'user-agent': 'impatient' };
    // A new connection, whose address nobody has read before.
    const client = httpRequest(`${on.holdfast.url}/v1/admin/tenants`, { headers, agent: false });
    const left = once(client, 'error');
    client.end();
    await eventually('it waits', async () => (await on.holdfast.metric('holdfast_queries_waiting')) === 1);
    client.destroy(new Error('gone'));
    await left;
    await eventually('it left', async () => (await on.holdfast.metric('holdfast_queries_waiting')) === 0);
    held.forEach((query) => query.end());
    const rows = (await logs('tenant_id=__admin__&error_code=INVALID_REQUEST')).filter(
      ({ user_agent: agent }: Json) => agent === 'impatient',
    );
    expect(rows).toEqual([]);
    expect(await on.holdfast.metric('holdfast_queries_abandoned_total')).toBe(abandoned + 1);
  });

  test('belong to the tenant whose key lacked the permission', async () => {
    const tenant = await on.holdfast.createTenant();
    const refused = await on.holdfast.call('POST', '/v1/webhooks', { key: tenant.key, body: {} });
    expectRefusal(refused, 403, 'INSUFFICIENT_PERMISSIONS');
    expect(await logs(`tenant_id=${tenant.id}&error_code=INSUFFICIENT_PERMISSIONS`)).toMatchObject([
      {
        operation: 'POST:/v1/webhooks',
        status: 403,
        metadata: { message: 'the API key lacks the permission webhooks:write' },
      },
    ]);
  });

  test('do not exist on the runtime plane, which pays nothing for them', async () => {
    const tenant = await on.holdfast.createTenant();
    const answers = [
      await on.holdfast.reserve(tenant, 1),
      await on.holdfast.call('POST', '/v1/reservations', { body: {} }),
      await on.holdfast.call('GET', '/v1/balances', { key: tenant.key }),
    ];
    for (const answer of answers) {
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(await logs(`request_id=${answer.headers.get('x-request-id')}`)).toEqual([]);
    }
  });

  test("a tenant never finds another tenant's rows, and an operator finds its changes under the tenant that they concern", async () => {
    shows('admin sentinel');
    const [tenant, other] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    const subscription = { url: 'https://93.184.215.14/hook', event_types: ['budget.created'] };
    const created = await on.holdfast.admin(
      'POST',
      `/v1/admin/webhooks?tenant_id=${tenant.id}`,
      subscription,
    );
    const {
      subscription: { subscription_id: id },
    } = expectStatus(created, 201);
    expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, { status: 'PAUSED' }), 200);
    const mine = await logs(`tenant_id=${tenant.id}&resource_type=webhook`);
    expect(mine).toMatchObject([
      { operation: 'updateWebhookSubscription', tenant_id: tenant.id },
      { operation: 'createWebhookSubscription', tenant_id: tenant.id },
    ]);
    expect(await logs(`tenant_id=${other.id}&resource_type=webhook`)).toEqual([]);
    expect(
      (await logs('tenant_id=__admin__&limit=100'))
        .map(({ tenant_id: shown }: Json) => shown)
        .filter((shown) => shown !== '__admin__'),
    ).toEqual([]);
  });
});

test('a client that disconnects while it sends nothing affects no other', async () => {
  const server = await startStore();
  const holdfast = await Holdfast.start({ REDIS_URL: server.url });
  await new Promise<void>((done) => {
    const gone = httpRequest(`${holdfast.url}/v1/admin/tenants`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': '100' },
    });
    gone.on('error', () => done());
    gone.write('{');
    setTimeout(() => gone.destroy(), 50);
  });
  expectStatus(await holdfast.admin('GET', LOGS), 200);
  await holdfast.stop();
  await server.stop();
});

describe('a long log of reads', () => {
  const on = useGovernance();
  const MOST = 100_000;

  test('is read in bounded parts and loses its oldest rows, and both are counted', async () => {
    const script = `for row = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], row .. '-0', 'op', 'listTenants', 'tn', '__admin__', 'ow', '__admin__', 'rq', 'r', 'st', '200') end`;
    const log = briefAuditLogKey(SYSTEM_TAG);
    await on.stored.redis.eval(script, 1, log, MOST + 10);
    const page = expectStatus(await on.holdfast.admin('GET', `${LOGS}?operation=nothing`), 200);
    expect(page).toMatchObject({ logs: [], has_more: true });
    expect(await on.holdfast.metric('holdfast_audit_pages_cut_total')).toBe(1);
    await on.holdfast.app.get(AuditedRequests).settled();
    expect(await on.stored.redis.xlen(log)).toBe(MOST);
    expect(await on.holdfast.metric('holdfast_audit_rows_displaced_total')).toBe(11);
  });
});
