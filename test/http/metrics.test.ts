import 'reflect-metadata';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { request } from 'undici';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { ADMIN_KEY, startProbeApp, type ProbeApp } from './probe-app.js';

let app: ProbeApp;
beforeAll(async () => {
  app = await startProbeApp();
});
afterAll(() => app.close());

async function scrape(
  path = '/metrics',
  headers: Record<string, string> = { 'x-admin-api-key': ADMIN_KEY },
): Promise<{ status: number; text: string }> {
  const response = await request(app.url + path, { headers });
  return { status: response.statusCode, text: await response.body.text() };
}

/** The value of the series that has all these labels. */
async function valueOf(name: string, labels: Record<string, string>): Promise<number> {
  const { text } = await scrape();
  const line = text
    .split('\n')
    .find(
      (row) =>
        row.startsWith(`${name}{`) &&
        Object.entries(labels).every(([key, value]) => row.includes(`${key}="${value}"`)),
    );
  return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ')));
}

async function hit(path: string, method: 'GET' | 'POST' = 'GET'): Promise<void> {
  await (await request(app.url + path, { method })).body.dump();
}

test.each(['/metrics', '/actuator/prometheus'])(
  '%s needs the admin key, as header or bearer',
  async (path) => {
    expect((await scrape(path)).status).toBe(200);
    expect((await scrape(path, { authorization: `Bearer ${ADMIN_KEY}` })).status).toBe(200);
    for (const headers of [
      {},
      { 'x-admin-api-key': 'wrong' },
      { 'x-admin-api-key': '' },
      { authorization: 'Bearer wrong' },
      { authorization: ADMIN_KEY },
    ]) {
      const refused = await scrape(path, headers);
      expect(refused.status).toBe(401);
      expect(JSON.parse(refused.text)).toMatchObject({ error: 'UNAUTHORIZED' });
      // The dashboard treats a message that names the other header as a tenant's problem, and keeps its
      // session.
      expect(refused.text.toLowerCase()).not.toContain('cycles-api-key');
    }
  },
);

test('requests are counted under their route template, method, status and outcome', async () => {
  const series = {
    uri: '/probe/items/:id',
    method: 'GET',
    status: '200',
    outcome: 'SUCCESS',
    application: 'cycles-protocol-service',
  };
  const before = await valueOf('http_server_requests_seconds_count', series);
  await hit('/probe/items/one');
  await hit('/probe/items/two');
  expect(await valueOf('http_server_requests_seconds_count', series)).toBe(before + 2);
  expect(await valueOf('http_server_requests_seconds_bucket', { ...series, le: '+Inf' })).toBe(before + 2);
  expect(await valueOf('http_server_requests_seconds_bucket', { ...series, le: '10' })).toBe(before + 2);
  expect(await valueOf('http_server_requests_seconds_sum', series)).toBeGreaterThan(0);
  expect((await scrape()).text).not.toContain('items/one');
});

test('refusals, failures and unknown paths are counted too, the last in one series', async () => {
  await hit('/probe/refuse');
  await hit('/probe/defect/1');
  await hit('/v1/no/such/path-1');
  await hit('/v1/no/such/path-2');
  await hit('/probe/refuse', 'POST');
  const count = 'http_server_requests_seconds_count';
  expect(await valueOf(count, { uri: '/probe/refuse', status: '409', outcome: 'CLIENT_ERROR' })).toBe(1);
  expect(await valueOf(count, { uri: '/probe/defect/:id', status: '500', outcome: 'SERVER_ERROR' })).toBe(1);
  expect(await valueOf(count, { uri: 'UNKNOWN', status: '404', outcome: 'CLIENT_ERROR' })).toBe(2);
  expect(await valueOf(count, { uri: 'UNKNOWN', status: '405', outcome: 'CLIENT_ERROR' })).toBe(1);
  expect(await valueOf('holdfast_unexpected_errors_total', {})).toBe(1);
});

test('process metrics are present', async () => {
  const { text } = await scrape();
  expect(text).toMatch(/^process_resident_memory_bytes\{/m);
  expect(text).toMatch(/^nodejs_eventloop_lag_seconds\{/m);
  const valueIn = (name: string): number =>
    Number(new RegExp(`^${name}\\{.*\\} (\\d+)$`, 'm').exec(text)?.[1]);
  expect(valueIn('nodejs_heap_size_limit_bytes')).toBeGreaterThan(valueIn('nodejs_heap_size_used_bytes'));
});

test('a blank label is UNKNOWN, and the tenant label disappears when it is switched off', async () => {
  const table = {
    probes: { name: 'probe_total', help: 'For this test.', labels: ['tenant', 'decision'] },
  } as const;
  app.app.get(MetricsRegistry).of(table).probes.inc({ tenant: '', decision: 'ALLOW' });
  expect((await scrape()).text).toContain(
    'probe_total{tenant="UNKNOWN",decision="ALLOW",application="cycles-protocol-service"} 1',
  );
  const without = await startProbeApp({ env: { CYCLES_METRICS_TENANT_TAG_ENABLED: 'false' } });
  try {
    const registry = without.app.get(MetricsRegistry);
    registry.of(table).probes.inc({ tenant: 'acme', decision: 'ALLOW' });
    expect(await registry.registry.metrics()).toContain(
      'probe_total{decision="ALLOW",application="cycles-protocol-service"} 1',
    );
  } finally {
    await without.close();
  }
});
