import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openTelemetry } from '../../src/telemetry/tracing/opentelemetry.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { commitOf, reserveOf, sendBatch } from '../support/batches.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, newKey, type TestTenant } from '../support/holdfast.js';
import { findFreePort } from '../support/redis-server.js';
import { sharedStoreUrl, startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';
import { type ReceivedSpan, TraceReceiver } from '../support/trace-receiver.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { allowLoopback, causeEvent, subscribe } from '../webhooks/dispatching.js';

const COLLECTOR_KEY = 'key-of-the-collector';

let redis: Store;
let stored: StoredHolds;
let collector: TraceReceiver;
let endpoint: WebhookReceiver;
let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  stored = new StoredHolds(redis.url);
  collector = await TraceReceiver.start();
  endpoint = await WebhookReceiver.start();
  holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    HOLDFAST_ROLES: 'api,sweeper,dispatcher',
    SWEEP_INTERVAL_MS: '50',
    webhookPollMs: 20,
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/otel`,
    OTEL_EXPORTER_OTLP_HEADERS: `x-collector-key=${COLLECTOR_KEY}`,
    OTEL_SERVICE_NAME: 'ledger-eu',
  });
  await allowLoopback(holdfast);
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1000);
  await subscribe(holdfast, tenant, `${endpoint.url}/hook?token=in-the-url`, {
    event_types: ['reservation.denied', 'reservation.expired'],
  });
});

afterAll(async () => {
  await holdfast.stop();
  await collector.stop();
  await endpoint.stop();
  stored.close();
  await redis.stop();
});

const digits = (length: number): string => randomBytes(length / 2).toString('hex');

function requestSpan(requestId: string | null): Promise<ReceivedSpan> {
  return collector.span(
    'the request is traced',
    ({ attributes }) => attributes['holdfast.request_id'] === requestId,
  );
}

test('a reserve is a span in the trace of its client, and its script is a child', async () => {
  const [traceId, parentId] = [digits(32), digits(16)];
  const answer = await holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    headers: { traceparent: `00-${traceId}-${parentId}-01` },
    body: {
      idempotency_key: newKey(),
      subject: { tenant: tenant.id },
      action: { kind: 'llm.completion', name: 'secret-model-name' },
      estimate: { unit: 'TOKENS', amount: 1 },
      metadata: { note: 'only in the body' },
    },
  });
  expectStatus(answer, 200);
  expect(answer.headers.get('x-cycles-trace-id')).toBe(traceId);
  const request = await requestSpan(answer.headers.get('x-request-id'));
  expect(request).toMatchObject({
    name: 'POST /v1/reservations',
    traceId,
    parentSpanId: parentId,
    failed: false,
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/v1/reservations',
      'http.response.status_code': 200,
      'holdfast.caller': 'tenant',
      'holdfast.tenant_id': tenant.id,
    },
  });
  expect(collector.childrenOf(request).filter(({ name }) => name === 'reserve')).toMatchObject([
    {
      failed: false,
      attributes: { 'db.system.name': 'redis', 'db.operation.name': 'FCALL', 'holdfast.outcome': 'ALLOW' },
    },
  ]);
});

test('each operation of a batch is a span in that of the batch, with its status', async () => {
  const reserve = reserveOf(tenant, 1);
  const answer = await sendBatch(holdfast, tenant, [reserve, commitOf('rsv_00aaaaaaaaaaaaaaaa', 1)]);
  expectStatus(answer, 200);
  const request = await requestSpan(answer.headers.get('x-request-id'));
  expect(request).toMatchObject({ name: 'POST /v1/batch', failed: false });
  const [made, missing] = collector
    .childrenOf(request)
    .filter(({ name }) => name.startsWith('batch '))
    .sort((one, other) => other.name.localeCompare(one.name));
  expect([made, missing]).toMatchObject([
    { name: 'batch reserve', failed: false, attributes: { 'http.response.status_code': 200 } },
    { name: 'batch commit', failed: false, attributes: { 'http.response.status_code': 404 } },
  ]);
  expect(collector.childrenOf(made as ReceivedSpan).map(({ name }) => name)).toEqual(['reserve']);
});

test('the trace id of the protocol is that of the span, and an unsampled trace of a client stays unsampled', async () => {
  const traceId = digits(32);
  const path = `/v1/balances?tenant=${tenant.id}`;
  const unrecorded = await holdfast.call('GET', path, {
    key: tenant.key,
    headers: { traceparent: `00-${traceId}-${digits(16)}-00` },
  });
  const own = await holdfast.call('GET', path, {
    key: tenant.key,
    headers: { 'x-cycles-trace-id': traceId },
  });
  const span = await requestSpan(own.headers.get('x-request-id'));
  expect(span).toMatchObject({ traceId, parentSpanId: undefined, name: 'GET /v1/balances' });
  // Spans are sent in the order of their ends.
  const requestIds = collector.spans.map(({ attributes }) => attributes['holdfast.request_id']);
  expect(requestIds).not.toContain(unrecorded.headers.get('x-request-id'));
});

test('the delivery of an event is a child of the request that caused it, and the endpoint gets its span', async () => {
  const request = await requestSpan(await causeEvent(holdfast, tenant));
  const delivery = await collector.span(
    'the delivery is traced',
    ({ name, parentSpanId }) => name === 'webhook delivery' && parentSpanId === request.spanId,
  );
  expect(delivery).toMatchObject({
    traceId: request.traceId,
    failed: false,
    attributes: {
      'http.request.method': 'POST',
      'server.address': '127.0.0.1',
      'http.response.status_code': 200,
      'holdfast.tenant_id': tenant.id,
      'holdfast.event_type': 'reservation.denied',
      'holdfast.attempt': 1,
      'holdfast.outcome': 'SUCCESS',
    },
  });
  const sent = endpoint.received.at(-1)?.headers['traceparent'];
  expect(sent).toBe(`00-${delivery.traceId}-${delivery.spanId}-01`);
  await eventually('the record of the outcome is traced', () =>
    collector.childrenOf(delivery).some(({ name }) => name === 'settle_delivery'),
  );
});

test('a sweep is a trace with its scripts and the deliveries of what expired', async () => {
  endpoint.react = (response) => response.writeHead(503).end();
  const id = await holdfast.hold(tenant, 1, { grace_period_ms: 0 });
  await stored.expireIn(id, -1000);
  const delivery = await collector.span(
    'the delivery of the expiry is traced',
    ({ attributes }) => attributes['holdfast.event_type'] === 'reservation.expired',
  );
  expect(delivery).toMatchObject({
    failed: true,
    attributes: {
      'error.type': 'http_5xx',
      'http.response.status_code': 503,
      'holdfast.outcome': 'RETRYING',
    },
  });
  const sweep = await collector.span('the sweep is traced', ({ spanId }) => spanId === delivery.parentSpanId);
  expect(sweep).toMatchObject({
    name: 'sweep',
    traceId: delivery.traceId,
    parentSpanId: undefined,
    attributes: { 'holdfast.sweep.expired': 1, 'holdfast.sweep.failed': 0, 'holdfast.sweep.cut': false },
  });
  const scripts = collector.childrenOf(sweep).map(({ name }) => name);
  expect(scripts).toEqual(expect.arrayContaining(['sweep_page', 'expire_page', 'webhook delivery']));
});

test('spans hold no keys, no bodies and no URLs, and idle work creates none', () => {
  const sent = collector.http.received.map(({ body }) => body).join('\n');
  const secrets = [
    tenant.key,
    ADMIN_API_KEY,
    'only in the body',
    'secret-model-name',
    'in-the-url',
    COLLECTOR_KEY,
  ];
  expect(secrets.filter((secret) => sent.includes(secret))).toEqual([]);
  // A sweeper renews its leases and a dispatcher polls for events many times a second.
  expect(
    collector.spans.filter(
      ({ name, parentSpanId }) => parentSpanId === undefined && !/^(GET|POST|PUT|sweep)/.test(name),
    ),
  ).toEqual([]);
  const [{ path, headers } = { path: '', headers: {} as Record<string, string> }] = collector.http.received;
  expect([path, headers['x-collector-key']]).toEqual(['/otel/v1/traces', COLLECTOR_KEY]);
  expect(sent).toContain('ledger-eu');
});

test('exported spans are counted', async () => {
  await eventually(
    'spans are counted',
    async () => (await holdfast.metric('holdfast_trace_spans_total', { outcome: 'exported' })) >= 10,
  );
});

test('a collector that refuses spans affects no response; they are counted, and each change is logged once', async () => {
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => void lines.push(line) });
  const refusing = await WebhookReceiver.start();
  refusing.react = (response) => response.writeHead(400).end();
  const instance = await Holdfast.start({ OTEL_EXPORTER_OTLP_ENDPOINT: refusing.url }, { logger });
  const failed = () => instance.metric('holdfast_trace_spans_total', { outcome: 'failed' });
  const told = (message: RegExp): number => lines.filter((line) => message.test(line)).length;
  try {
    for (const count of [1, 2]) {
      const before = await failed();
      expectStatus(await instance.admin('GET', '/v1/admin/tenants'), 200);
      await eventually(`export ${count} fails`, async () => (await failed()) > before);
    }
    expect(told(/do not reach the collector/)).toBe(1);
    refusing.react = (response) => response.writeHead(200).end();
    expectStatus(await instance.admin('GET', '/v1/admin/tenants'), 200);
    await eventually('the collector is back', () => told(/reach the collector again/) === 1);
    expect(told(/do not reach the collector/)).toBe(1);
  } finally {
    await instance.stop();
    await refusing.stop();
  }
});

test('a collector that never responds neither takes unbounded memory nor delays the shutdown', async () => {
  const silent: Server = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const counts = { exported: 0, failed: 0, dropped: 0 };
  const spans = openTelemetry(
    {
      endpoint: new URL(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`),
      headers: {},
      serviceName: 'holdfast',
      share: 1,
    },
    createLogger('silent'),
    (outcome, count) => (counts[outcome] += count),
  );
  try {
    for (let made = 0; made < 3000; made += 1) {
      spans.start('work', {}, { traceId: digits(32), flags: '01' }).end();
    }
    expect(counts).toEqual({ exported: 0, failed: 0, dropped: 3000 - 2048 });
    await spans.close();
    expect(counts.exported).toBe(0);
  } finally {
    silent.closeAllConnections();
    silent.close();
  }
});

describe('the built service', () => {
  beforeAll(buildService, 120_000);

  /**
   * Whether a start loads the module that imports OpenTelemetry, which the build puts into a separate file.
   */
  async function loadsTelemetry(env: Record<string, string>): Promise<boolean> {
    const moduleOf = (text: string): string => `data:text/javascript;base64,${btoa(text)}`;
    const hooks = moduleOf(
      `import { writeSync } from 'node:fs';
       export const load = (url, context, next) => { writeSync(2, 'loaded ' + url + '\\n'); return next(url, context); };`,
    );
    const register = moduleOf(`import { register } from 'node:module'; register('${hooks}');`);
    const service = await startService({
      REDIS_URL: sharedStoreUrl(),
      HOLDFAST_ROLES: 'api',
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
      NODE_OPTIONS: `--import=${register}`,
      ...env,
    });
    const answer = await fetch(`${service.url}/v1/admin/tenants`, {
      headers: { 'x-admin-api-key': ADMIN_API_KEY },
    });
    expect(answer.status).toBe(200);
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
    const loaded = [...service.output.stderr.matchAll(/^loaded (.*)$/gm)].map(([, url = '']) => url);
    expect(loaded.filter((url) => url.endsWith('/main.js'))).toHaveLength(1);
    return loaded.some((url) => /\/opentelemetry[^/]*\.js$/.test(url));
  }

  test('loads no part of OpenTelemetry without an endpoint', async () => {
    expect(await loadsTelemetry({})).toBe(false);
  });

  test('serves and stops as usual when nothing listens at the endpoint', async () => {
    const port = await findFreePort();
    const endpoint = `http://127.0.0.1:${port}`;
    expect(await loadsTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })).toBe(true);
  });
});
