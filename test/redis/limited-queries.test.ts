import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { tagOfTenant } from '../../src/redis/keyspace.js';
import { type Query, QueryAbandoned } from '../../src/redis/queries.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { shows } from '../compatibility/shows.js';
import { makeHolds } from '../support/bulk-holds.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  type Answer,
  Holdfast,
  type TestTenant,
} from '../support/holdfast.js';
import { connectTo } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue } from '../expiry/instances.js';

const PER_TENANT = 2;
/** More than an export writes to the socket at once. */
const EXPIRED = 120;
const WAITING = PER_TENANT * 16;
/** Long enough for a slow machine to send all requests of a test while the first of them still waits. */
const QUEUE_MS = 3000;

const on = useGovernance(
  {},
  {
    queryConcurrency: 3,
    queryConcurrencyPerTenant: PER_TENANT,
    queryQueueMs: QUEUE_MS,
    queryTimeShare: 5,
  },
);
const held: Query[] = [];

afterEach(() => {
  held.splice(0).forEach((query) => query.end());
});

/** Takes places as running queries would. The empty owner means operators. */
async function occupy(owner: string, count = PER_TENANT): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    held.push(await on.holdfast.app.get(RedisService).queries.admit(owner, new AbortController().signal));
  }
}

const list = ({ key }: TestTenant): Promise<Answer> => on.holdfast.call('GET', '/v1/reservations', { key });
const refused = (reason: string): Promise<number> =>
  on.holdfast.metric('holdfast_queries_refused_total', { reason });
const running = (): Promise<number> => on.holdfast.metric('holdfast_queries_running');
const waiting = (): Promise<number> => on.holdfast.metric('holdfast_queries_waiting');
const pauses = (): Promise<number> => on.holdfast.metric('holdfast_query_pauses_total');

test('a query that waited is judged again: a key that was revoked meanwhile reads nothing', async () => {
  const patient = await Holdfast.start({
    REDIS_URL: on.redis.url,
    queryConcurrencyPerTenant: 1,
    queryQueueMs: 30_000,
  });
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  const body = { tenant_id: tenant.id, name: 'revoked during a wait' };
  const { key_id: id, key_secret: key } = expectStatus(
    await on.holdfast.admin('POST', '/v1/admin/api-keys', body),
    201,
  );
  const { queries } = patient.app.get(RedisService);
  const running = await queries.admit(tenant.id, new AbortController().signal);
  const late = patient.call('GET', '/v1/reservations', { key: key as string });
  await eventually('it waits', async () => (await patient.metric('holdfast_queries_waiting')) === 1);
  expectStatus(await patient.admin('DELETE', `/v1/admin/api-keys/${id}`), 200);
  running.end();
  expectRefusal(await late, 401, 'UNAUTHORIZED');
  expectStatus(await patient.call('GET', '/v1/reservations', { key: tenant.key }), 200);
  await patient.stop();
});

describe('a tenant that occupies all its places', () => {
  test('waits for one, and gets 429 with Retry-After when none becomes free in time; others and the ledger continue', async () => {
    shows('throttling');
    const [tenant, other] = [
      await on.holdfast.fundedTenant(1_000_000),
      await on.holdfast.fundedTenant(1_000_000),
    ];
    await occupy(tenant.id);
    expect(await running()).toBe(PER_TENANT);
    const before = await refused('queue_timeout');
    const began = performance.now();
    const late = list(tenant);
    await eventually('it waits', async () => (await waiting()) === 1);
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    expectStatus(await list(other), 200);
    const answer = await late;
    expect(performance.now() - began).toBeGreaterThanOrEqual(QUEUE_MS - 10);
    const { message } = expectRefusal(answer, 429, 'LIMIT_EXCEEDED');
    expect(message).toBe(
      'too many queries at the same time: at most 2 per tenant and 3 in total run at once; retry in 3 s',
    );
    expect(answer.headers.get('retry-after')).toBe('3');
    expect(await refused('queue_timeout')).toBe(before + 1);
    expect(await waiting()).toBe(0);
  });

  test('proceeds when a place becomes free while it waits', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    await occupy(tenant.id);
    const started = await on.holdfast.metric('holdfast_queries_started_total');
    const waits = list(tenant);
    await eventually('it waits', async () => (await waiting()) === 1);
    held.pop()?.end();
    expectStatus(await waits, 200);
    expect(await on.holdfast.metric('holdfast_queries_started_total')).toBe(started + 1);
    expect(await running()).toBe(1);
  });

  test('is refused when its queue is full, no sooner than if it had waited, and another tenant is not', async () => {
    const [tenant, other] = [
      await on.holdfast.fundedTenant(1_000_000),
      await on.holdfast.fundedTenant(1_000_000),
    ];
    await occupy(tenant.id);
    const before = await refused('queue_full');
    const began = performance.now();
    const many = Array.from({ length: WAITING + 8 }, async () => {
      const answer = await list(tenant);
      return { answer, tookMs: performance.now() - began };
    });
    await eventually('the queue is full', async () => (await refused('queue_full')) === before + 8);
    expectStatus(await list(other), 200);
    for (const { answer, tookMs } of await Promise.all(many)) {
      expectRefusal(answer, 429, 'LIMIT_EXCEEDED');
      expect(tookMs).toBeGreaterThanOrEqual(QUEUE_MS - 10);
    }
  });
});

test('no tenant waits behind the queue of another one', async () => {
  const [tenant, other] = [
    await on.holdfast.fundedTenant(1_000_000),
    await on.holdfast.fundedTenant(1_000_000),
  ];
  await occupy('somebody', 1);
  await occupy(tenant.id);
  const many = Array.from({ length: 20 }, () => list(tenant));
  await eventually('they wait', async () => (await waiting()) === 20);
  const waits = list(other);
  await eventually('it waits', async () => (await waiting()) === 21);
  held.shift()?.end();
  expectStatus(await waits, 200);
  await Promise.all(many);
});

test('a client that disconnects while it waits leaves the queue', async () => {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  await occupy(tenant.id);
  const before = await on.holdfast.metric('holdfast_queries_abandoned_total');
  const leaving = new AbortController();
  const left = fetch(`${on.holdfast.url}/v1/reservations`, {
    headers: { 'x-cycles-api-key': tenant.key },
    signal: leaving.signal,
  }).catch(() => 'gone');
  await eventually('it waits', async () => (await waiting()) === 1);
  leaving.abort();
  expect(await left).toBe('gone');
  await eventually('it left', async () => (await waiting()) === 0);
  expect(await on.holdfast.metric('holdfast_queries_abandoned_total')).toBe(before + 1);
});

describe('a query of many runs', () => {
  let tenant: TestTenant;

  /** Many enough that a twentieth of the time suffices for the test to watch. */
  async function manyHolds(): Promise<void> {
    tenant = await on.holdfast.fundedTenant(1_000_000);
    const client = connectTo(on.redis.url);
    await makeHolds(
      client,
      tagOfTenant(tenant.id, 64),
      tenant.id,
      Array.from({ length: 6000 }, () => ({})),
    );
    client.disconnect();
  }

  test('pauses between its runs when it has used its share of the time, and ends with its client', async () => {
    await manyHolds();
    const abandoned = await on.holdfast.metric('holdfast_queries_abandoned_total');
    const errors = await on.holdfast.metric('holdfast_unexpected_errors_total');
    const paused = await pauses();
    const leaving = new AbortController();
    const url = `${on.holdfast.url}/v1/reservations?sort_by=status`;
    const left = fetch(url, { headers: { 'x-cycles-api-key': tenant.key }, signal: leaving.signal }).catch(
      () => 'gone',
    );
    await eventually('it pauses', async () => (await pauses()) > paused && (await running()) === 1);
    leaving.abort();
    expect(await left).toBe('gone');
    await eventually('its place is free', async () => (await running()) === 0);
    expect(await on.holdfast.metric('holdfast_queries_abandoned_total')).toBe(abandoned + 1);
    expect(await on.holdfast.metric('holdfast_unexpected_errors_total')).toBe(errors);
  }, 120_000);
});

/** The queries of operators, and those that tenants may send. */
const QUERIES: readonly string[] = [
  '/v1/admin/tenants',
  '/v1/admin/api-keys',
  '/v1/admin/budgets',
  '/v1/admin/policies?tenant_id=TENANT',
  '/v1/admin/audit/logs',
  '/v1/admin/events',
  '/v1/admin/webhooks',
  '/v1/admin/webhooks/whsub_00AAAAAAAAAAAAAAAA/deliveries',
  '/v1/reservations?tenant=TENANT',
  '/ops/sweeper',
  '/ops/quarantine',
  '/ops/verify',
  '/ops/expirations',
  '/ops/expirations?format=csv',
  '/ops/expirations/counts?from=0&to=1',
  '/ops/reservations/rsv_00AAAAAAAAAAAAAAAA',
];

const TENANT_QUERIES: readonly string[] = [
  '/v1/reservations',
  '/v1/balances?tenant=TENANT',
  '/v1/events',
  '/v1/webhooks',
  '/v1/admin/budgets',
  '/v1/admin/policies',
  '/v1/webhooks/whsub_00AAAAAAAAAAAAAAAA/deliveries',
];

test('operators count as one tenant, and each operation that reads many records is bounded for them and for tenants', async () => {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  const key = await on.holdfast.createKey(tenant.id, {
    permissions: ['reservations:list', 'balances:read', 'admin:read'],
  });
  const hasty = await Holdfast.start({
    REDIS_URL: on.redis.url,
    queryConcurrencyPerTenant: 1,
    queryQueueMs: 50,
  });
  const { queries } = hasty.app.get(RedisService);
  const running = await queries.admit('', new AbortController().signal);
  const bulk = { action: 'PAUSE', filter: { status: 'ACTIVE' }, idempotency_key: 'bulk-1' };
  const many = [
    ...QUERIES.map((path) => hasty.admin('GET', path.replace('TENANT', tenant.id))),
    hasty.admin('POST', '/v1/admin/webhooks/bulk-action', bulk),
  ];
  (await Promise.all(many)).forEach((answer) => expectRefusal(answer, 429, 'LIMIT_EXCEEDED'));
  running.end();
  await hasty.stop();
  await occupy(tenant.id);
  const own = TENANT_QUERIES.map((path) =>
    on.holdfast.call('GET', path.replace('TENANT', tenant.id), { key }),
  );
  (await Promise.all(own)).forEach((answer) => expectRefusal(answer, 429, 'LIMIT_EXCEEDED'));
});

test('a query whose client leaves is counted once, whether or not one of its runs waits at that moment', async () => {
  const { queries } = on.holdfast.app.get(RedisService);
  const before = await on.holdfast.metric('holdfast_queries_abandoned_total');
  for (const waits of [false, true]) {
    const leaving = new AbortController();
    const query = await queries.admit('somebody', leaving.signal);
    leaving.abort();
    if (waits) {
      await expect(query.run(() => queries.command((client) => client.ping()))).rejects.toThrow(
        QueryAbandoned,
      );
    }
    query.end();
  }
  expect(await on.holdfast.metric('holdfast_queries_abandoned_total')).toBe(before + 2);
});

test('an export keeps its place until it ends, and returns it when its reader disconnects', async () => {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  const stored = new StoredHolds(on.redis.url);
  const due = await makeDue(on.holdfast, stored, tenant, EXPIRED);
  for (const id of due) {
    await stored.expireIn(id, -60_000);
    await on.holdfast.settle(tenant, 'release', id);
  }
  await makeHolds(
    stored.redis,
    stored.tagOfTenant(tenant.id),
    tenant.id,
    Array.from({ length: 6000 }, () => ({})),
  );
  stored.close();
  const leaving = new AbortController();
  const asked = (signal?: AbortSignal) =>
    fetch(`${on.holdfast.url}/ops/expirations?format=ndjson&tenant=${tenant.id}`, {
      headers: { 'x-admin-api-key': ADMIN_API_KEY },
      ...(signal === undefined ? {} : { signal }),
    });
  const abandoned = await on.holdfast.metric('holdfast_queries_abandoned_total');
  // This uses up the time that is free of pauses.
  expectStatus(await on.holdfast.call('GET', '/v1/reservations?sort_by=status', { key: tenant.key }), 200);
  // The export has sent its first portion and is reading the rest of the log.
  expect((await asked(leaving.signal)).status).toBe(200);
  expect(await running()).toBe(1);
  leaving.abort();
  await eventually('its place is free', async () => (await running()) === 0);
  expect(await on.holdfast.metric('holdfast_queries_abandoned_total')).toBe(abandoned + 1);
  const whole = await asked();
  expect(await running()).toBe(1);
  expect((await whole.text()).trim().split('\n')).toHaveLength(EXPIRED);
  await eventually('its place is free', async () => (await running()) === 0);
}, 120_000);

test('an export that is pipelined behind another response returns its place when the connection ends', async () => {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  await occupy(tenant.id);
  const socket = connect(Number(new URL(on.holdfast.url).port), '127.0.0.1');
  await once(socket, 'connect');
  const ask = (path: string, key: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n${key}\r\n\r\n`;
  socket.write(
    ask('/v1/reservations', `X-Cycles-API-Key: ${tenant.key}`) +
      ask('/ops/expirations?format=csv', `X-Admin-API-Key: ${ADMIN_API_KEY}`),
  );
  await eventually(
    'the export waits for the list before it',
    async () => (await running()) === PER_TENANT + 1 && (await waiting()) === 1,
  );
  socket.destroy();
  await eventually('both gave up', async () => (await running()) === PER_TENANT && (await waiting()) === 0);
});
