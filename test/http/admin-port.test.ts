import 'reflect-metadata';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isOperatorsPlane } from '../../src/http/operators-plane.js';
import { listen, type Listeners } from '../../src/http/listening.js';
import { RouteTable } from '../../src/http/route-table.js';
import { exchange } from '../support/openapi-fuzz/index.js';
import { topologyOfRun } from '../support/store.js';
import { ADMIN_KEY, type ProbeApp, startProbeApp } from './probe-app.js';

/** A test clock needs a single Redis. */
const CLOCK = topologyOfRun() === 'single' ? { HOLDFAST_TEST_CLOCK: 'true' } : {};

let probe: ProbeApp;
let listeners: Listeners;
let runtime: string;
let operators: string;

beforeAll(async () => {
  probe = await startProbeApp({
    listen: false,
    env: { ...CLOCK, CORS_ORIGINS: 'https://dashboard.example.com' },
  });
  listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  runtime = `http://127.0.0.1:${listeners.port}`;
  operators = `http://127.0.0.1:${listeners.adminPort}`;
});

afterAll(async () => {
  await listeners.close(0);
  await probe.close();
});

interface Seen {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

async function ask(method: string, url: string, body?: string): Promise<Seen> {
  const response = await fetch(url, {
    method,
    headers: { 'x-admin-api-key': ADMIN_KEY, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body }),
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

/** What any unknown path answers. */
const NOTHING = { error: 'NOT_FOUND', message: 'there is nothing at this path' };

/** Every route, with something for its parameters. */
function routes(): { method: string; path: string }[] {
  return probe.app
    .get(RouteTable)
    .list()
    .map((route) => {
      const [method = '', template = ''] = route.split(' ');
      return { method, path: template.replaceAll(/:\w+/g, 'x') };
    });
}

test("the runtime port answers 404 in the protocol's form on each route of the operators' plane, whatever the method and key", async () => {
  const withheld = routes().filter(({ path }) => isOperatorsPlane(path));
  expect(withheld.length).toBeGreaterThan(80);
  for (const { method, path } of withheld) {
    const seen = await ask(method, runtime + path);
    expect({ method, path, status: seen.status, allow: seen.headers.get('allow') }).toEqual({
      method,
      path,
      status: 404,
      allow: null,
    });
    if (method !== 'HEAD') {
      expect(JSON.parse(seen.text)).toMatchObject(NOTHING);
    }
  }
});

test.each([
  ['GET', '/v1/admin/tenants'],
  ['GET', '/v1/%61dmin/tenants'],
  ['GET', '/v1/admin/tenants/'],
  ['GET', '/V1/admin/tenants'],
  ['GET', '//v1/admin/tenants'],
  ['DELETE', '/v1/admin/tenants'],
  ['GET', `/v1/admin/tenants/${'x'.repeat(300)}`],
  ['GET', '/v1/admin'],
  ['GET', '/ops/verify?limit=1'],
  ['GET', '/ops/nowhere'],
  ['GET', '/ops/test-clock'],
  ['POST', '/ops/test-clock/advance'],
  ['GET', '/console'],
  ['GET', '/console/'],
  ['GET', '/console/tenants/acme'],
  ['GET', '/console/assets/index.js'],
  ['GET', '/console/api/session'],
  ['POST', '/console/api/login'],
  ['GET', '/console/api/stream'],
  ['GET', '/metrics'],
  ['GET', '/metrics/'],
  ['GET', '/%6detrics'],
  ['GET', '/actuator/prometheus'],
  ['POST', '/v1/auth/validate'],
])('%s %s is nothing on the runtime port', async (method, path) => {
  const seen = await ask(method, runtime + path);
  expect({ status: seen.status, body: JSON.parse(seen.text) as unknown }).toEqual({
    status: 404,
    body: expect.objectContaining(NOTHING),
  });
  expect(seen.headers.get('x-request-id')).toMatch(/^req_/);
});

test('a request whose body waits for 100-continue is not let through', async () => {
  const answer = await exchange(
    listeners.port,
    Buffer.from(
      'POST /v1/admin/tenants HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
    ),
  );
  expect(answer.status).toBe(404);
});

test('the admin port serves everything', async () => {
  for (const path of [
    '/v1/admin/tenants',
    '/ops/sweeper',
    ...('HOLDFAST_TEST_CLOCK' in CLOCK ? ['/ops/test-clock'] : []),
    '/console',
    '/console/api/session',
    '/metrics',
    '/actuator/prometheus',
    '/docs',
    '/v1/auth/introspect',
  ]) {
    expect({ path, status: (await ask('GET', operators + path)).status }).toEqual({ path, status: 200 });
  }
  expect((await ask('DELETE', `${operators}/v1/admin/tenants`)).status).toBe(405);
});

test('the runtime port keeps health, its documents, and what API keys ask', async () => {
  for (const path of ['/health/live', '/health/ready', '/actuator/health', '/docs', '/v1/auth/introspect']) {
    expect({ path, status: (await ask('GET', runtime + path)).status }).toEqual({ path, status: 200 });
  }
  expect((await ask('POST', `${runtime}/v1/reservations`, '{}')).status).toBe(401);
});

/** The parts of an OpenAPI document that the test looks at. */
interface Document {
  readonly info: { readonly description: string };
  readonly paths: Record<string, object>;
  readonly tags: { readonly name: string }[];
}

test('each port describes what it serves', async () => {
  const [all, some] = (await Promise.all(
    [operators, runtime].map(
      async (url) => JSON.parse((await ask('GET', `${url}/openapi.json`)).text) as unknown,
    ),
  )) as [Document, Document];
  expect(Object.keys(some.paths).filter(isOperatorsPlane)).toEqual([]);
  expect(Object.keys(all.paths).filter((path) => !isOperatorsPlane(path))).toEqual(Object.keys(some.paths));
  expect(Object.keys(all.paths)).toContain('/v1/admin/tenants');
  expect(some.tags.length).toBeLessThan(all.tags.length);
  expect(some.info.description).not.toContain('/v1/admin');
  expect(all.info.description).toContain('/v1/admin');
});

test("an operation that takes no API key belongs to the operators' plane", async () => {
  const { paths } = JSON.parse((await ask('GET', `${operators}/openapi.json`)).text) as {
    paths: Record<string, Record<string, { operationId: string; security?: Record<string, unknown>[] }>>;
  };
  const operatorsOnly = Object.entries(paths).flatMap(([path, item]) =>
    Object.values(item).flatMap(({ security = [] }) => {
      const names = security.flatMap((entry) => Object.keys(entry));
      return names.includes('AdminKeyAuth') && !names.includes('ApiKeyAuth') ? [path] : [];
    }),
  );
  expect(operatorsOnly.length).toBeGreaterThan(50);
  expect(operatorsOnly.filter((path) => !isOperatorsPlane(path))).toEqual([]);
});

test('without an admin port, the one port serves the operators', async () => {
  const alone = await startProbeApp();
  try {
    expect((await ask('GET', `${alone.url}/v1/admin/tenants`)).status).toBe(200);
  } finally {
    await alone.close();
  }
});
