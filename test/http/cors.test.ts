import 'reflect-metadata';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { RouteTable } from '../../src/http/route-table.js';
import { ADMIN_KEY, startProbeApp, type ProbeApp } from './probe-app.js';

const PAGE = 'https://dashboard.example.com';
const LOCAL_PAGE = 'http://localhost:3000';
const STRANGER = 'https://elsewhere.example.com';
/**
 * Headers that browsers show to every script, headers that they obey themselves, and headers that concern
 * only the connection.
 */
const NOT_EXPOSED = [
  'cache-control',
  'content-language',
  'content-length',
  'content-type',
  'expires',
  'last-modified',
  'pragma',
  'x-content-type-options',
  'connection',
  'keep-alive',
  'date',
  'transfer-encoding',
];

let open: ProbeApp;
let closed: ProbeApp;

beforeAll(async () => {
  open = await startProbeApp({
    env: { CORS_ORIGINS: `${PAGE}, ${LOCAL_PAGE}/`, RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '1' },
  });
  closed = await startProbeApp();
});
afterAll(() => Promise.all([open.close(), closed.close()]));

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

async function call(
  app: ProbeApp,
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await request(app.url + path, { method: method as 'GET', headers });
  await response.body.dump();
  return { status: response.statusCode, headers: response.headers as Record<string, string> };
}

function preflight(app: ProbeApp, origin: string, method: string, path: string): Promise<Answer> {
  return call(app, 'OPTIONS', path, {
    origin,
    'access-control-request-method': method,
    'access-control-request-headers': 'x-admin-api-key',
  });
}

function listed(text: string | undefined): string[] {
  return (text ?? '').split(', ').map((entry) => entry.toLowerCase());
}

function corsHeadersOf({ headers }: Answer): string[] {
  return Object.keys(headers).filter((name) => name.startsWith('access-control-'));
}

describe('a page whose origin is named', () => {
  test.each([PAGE, LOCAL_PAGE])(
    '(%s) may PUT the webhook security configuration, and its preflight request needs no key',
    async (origin) => {
      const answer = await preflight(open, origin, 'PUT', '/v1/admin/config/webhook-security');
      expect(answer.status).toBe(204);
      expect(answer.headers['access-control-allow-origin']).toBe(origin);
      expect(listed(answer.headers['access-control-allow-methods'])).toContain('put');
      expect(answer.headers['vary']).toBe('Origin');
      expect(answer.headers['access-control-allow-credentials']).toBeUndefined();
    },
  );

  test('may use every method that the API has, and send every header that it reads', async () => {
    const { headers } = await preflight(open, PAGE, 'GET', '/v1/balances');
    const methods = new Set(
      open.app
        .get(RouteTable)
        .list()
        .map((route) => route.slice(0, route.indexOf(' ')).toLowerCase()),
    );
    expect(listed(headers['access-control-allow-methods'])).toEqual(expect.arrayContaining([...methods]));
    expect(methods.size).toBeGreaterThan(4);
    expect(listed(headers['access-control-allow-headers'])).toEqual(
      expect.arrayContaining([
        'x-cycles-api-key',
        'x-admin-api-key',
        'authorization',
        'content-type',
        'x-idempotency-key',
        'traceparent',
        'x-cycles-trace-id',
      ]),
    );
  });

  test.each([
    ['a success', 'GET', '/v1/admin/config/webhook-security', 200, { 'x-admin-api-key': ADMIN_KEY }],
    ['a missing key', 'GET', '/v1/balances', 401, {}],
    ['a wrong key', 'GET', '/v1/balances', 401, { 'x-cycles-api-key': 'wrong' }],
    ['too many of them', 'GET', '/v1/balances', 429, { 'x-cycles-api-key': 'wrong' }],
    ['an unknown path', 'GET', '/v1/nothing', 404, {}],
    ['a wrong method', 'PUT', '/v1/balances', 405, {}],
    ['a Redis that is away', 'GET', '/probe/unavailable', 503, {}],
  ])('sees the response to %s with all of its headers', async (_what, method, path, status, headers) => {
    const answer = await call(open, method, path, { origin: PAGE, ...headers });
    expect(answer.status).toBe(status);
    expect(answer.headers['access-control-allow-origin']).toBe(PAGE);
    const hidden = Object.keys(answer.headers).filter(
      (name) => !NOT_EXPOSED.includes(name) && !name.startsWith('access-control-') && name !== 'vary',
    );
    expect(listed(answer.headers['access-control-expose-headers'])).toEqual(expect.arrayContaining(hidden));
    expect(hidden).toEqual(expect.arrayContaining(['x-request-id', 'x-cycles-trace-id']));
  });
});

describe('no page of another origin is admitted', () => {
  test.each([
    ['where others are named', () => open],
    ['where none is', () => closed],
  ])('%s, neither to ask nor to read', async (_where, app) => {
    const asked = await preflight(app(), STRANGER, 'PUT', '/v1/admin/config/webhook-security');
    const read = await call(app(), 'GET', '/health/live', { origin: STRANGER });
    expect([asked.status, corsHeadersOf(asked), asked.headers['allow']]).toEqual([405, [], 'GET, HEAD, PUT']);
    expect([read.status, corsHeadersOf(read)]).toEqual([200, []]);
  });

  test('and a request without an origin gets the same response as if no page were named', async () => {
    const path = '/v1/admin/config/webhook-security';
    const [asked, asElsewhere] = await Promise.all(
      [open, closed].map((app) => call(app, 'OPTIONS', path, {})),
    );
    expect([asked?.status, corsHeadersOf(asked as Answer)]).toEqual([asElsewhere?.status, []]);
    const unknown = await call(open, 'OPTIONS', '/v1/nothing', {});
    expect(unknown.status).toBe(404);
  });
});
