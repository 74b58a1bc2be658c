import { beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { ConsoleClient, LiveReader, VIEWER_API_KEY } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type Json, newTenantId } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance(
  {},
  { VIEWER_API_KEY, TRUST_PROXY: 'loopback', RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '3' },
);
let page: ConsoleClient;
beforeEach(() => {
  page = new ConsoleClient(on.holdfast.url);
});

const TENANTS = '/v1/admin/tenants';
const newTenant = (): Json => ({ tenant_id: newTenantId(), name: 'made by the console' });

async function rowsOf(requestId: string | null): Promise<Json[]> {
  await on.holdfast.app.get(AuditedRequests).settled();
  const path = `/v1/admin/audit/logs?request_id=${requestId}`;
  return expectStatus(await on.holdfast.admin('GET', path), 200).logs as Json[];
}

describe('a session', () => {
  test('replaces the admin key, and its changes are audited under its name', async () => {
    const { body } = await page.logIn();
    expect(body).toEqual({
      session: {
        id: expect.stringMatching(/^ses_/),
        role: 'admin',
        name: body.session.id,
        expires_in_ms: 8 * 3_600_000,
      },
      has_provider: false,
      now_ms: expect.any(Number),
    });
    expect((await page.send('GET', TENANTS)).status).toBe(200);
    expect((await page.send('GET', '/ops/sweeper')).status).toBe(200);
    const made = await page.send('POST', TENANTS, { body: newTenant() });
    expect(made.status).toBe(201);
    const rows = await rowsOf(made.headers.get('x-request-id'));
    expect(rows).toMatchObject([{ operation: 'createTenant', status: 201, key_id: body.session.id }]);
  });

  test('has a cookie that scripts cannot read and other sites do not send, and over TLS only that', async () => {
    const plain = (await page.logIn()).headers.get('set-cookie');
    expect(plain).toMatch(/^holdfast-session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=28800$/);
    const secure = await page.send('POST', '/console/api/login', {
      body: { key: ADMIN_API_KEY },
      headers: { 'x-forwarded-proto': 'https' },
    });
    expect(secure.headers.get('set-cookie')).toMatch(/^__Host-holdfast-session=.*; Secure$/);
  });

  test('is not taken over TLS from a cookie without the prefix, which another host of the domain can set', async () => {
    await page.logIn();
    expect(page.cookie).toMatch(/^holdfast-session=/);
    const overTls = [
      { 'x-forwarded-proto': 'https' },
      { origin: page.url.replace('http:', 'https:') },
      // From behind a proxy that is not trusted, a browser sends this only over TLS.
      { 'x-forwarded-host': 'ledger.example.com', 'sec-fetch-site': 'same-origin' },
    ];
    for (const headers of overTls) {
      expect([headers, (await page.send('GET', TENANTS, { headers })).status]).toEqual([headers, 401]);
    }
    page.cookie = `${page.cookie}x; __Host-${page.cookie}`;
    for (const headers of overTls) {
      expect([headers, (await page.send('GET', TENANTS, { headers })).status]).toEqual([headers, 200]);
    }
    // Behind a proxy on the browser's own machine, nothing in a read tells that it came over TLS.
    expect((await page.send('GET', TENANTS)).status).toBe(200);
  });

  test('ends at log-out, for every request and for its live stream', async () => {
    await page.logIn();
    const live = new LiveReader(page.url, page.cookie);
    await eventually('a snapshot arrives', () => live.events.length > 0);
    const ended = await page.send('POST', '/console/api/logout');
    expect(ended.headers.get('set-cookie')).toMatch(/^holdfast-session=; .*Max-Age=0/);
    await live.ended;
    expect(live.events.at(-1)).toEqual({ name: 'ended', data: 'session' });
    expect((await page.send('GET', TENANTS)).status).toBe(401);
    expect((await page.send('GET', '/console/api/session')).body).toEqual({
      session: null,
      has_provider: false,
      now_ms: expect.any(Number),
    });
  });

  test('ends when its time is up, and with the keys that it was opened with', async () => {
    await page.logIn();
    const other = await Holdfast.start({
      REDIS_URL: on.redis.url,
      ADMIN_API_KEY: 'another-admin-key-0123456789',
    });
    const there = new ConsoleClient(other.url);
    there.cookie = page.cookie;
    expect((await there.send('GET', TENANTS)).status).toBe(401);
    await other.stop();
    const redis = new Redis(on.redis.url);
    for (const key of await redis.keys('{p*}cs:*')) {
      expect(await redis.pttl(key)).toBeGreaterThan(7.9 * 3_600_000);
      await redis.pexpire(key, 1);
    }
    await redis.quit();
    await eventually('the session is gone', async () => (await page.send('GET', TENANTS)).status === 401);
  });

  test('is refused without a valid key, with a limit, a row and a count', async () => {
    const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'wrong_admin_key' });
    const answers = [];
    for (let attempt = 0; attempt < 4; attempt += 1) {
      answers.push(
        await page.send('POST', '/console/api/login', {
          body: { key: `wrong-${attempt}` },
          headers: { 'x-forwarded-for': '192.0.2.7' },
        }),
      );
    }
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 429]);
    expect(answers[0]?.headers.get('set-cookie')).toBeNull();
    expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'wrong_admin_key' })).toBe(
      before + 4,
    );
    expect(await rowsOf(answers[0]?.headers.get('x-request-id') ?? null)).toMatchObject([
      { operation: 'POST:/console/api/login', status: 401, error_code: 'UNAUTHORIZED' },
    ]);
    // A valid key is never refused.
    const right = await page.logIn();
    expect(await rowsOf(right.headers.get('x-request-id'))).toMatchObject([
      { operation: 'logInToConsole', status: 200, key_id: right.body.session.id },
    ]);
  });
});

describe('a change that another page forges', () => {
  test.each<[string, Record<string, string>]>([
    ['from another origin', { origin: 'https://elsewhere.example.com' }],
    ['from a page without an origin', { origin: 'null' }],
    ['from another application of this site', { 'sec-fetch-site': 'same-site' }],
  ])('is refused: %s', async (_name, headers) => {
    await page.logIn();
    const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'forged_request' });
    const tenant = newTenant();
    const forged = await page.send('POST', TENANTS, { body: tenant, headers });
    expect([forged.status, forged.body.error]).toEqual([403, 'FORBIDDEN']);
    expect((await on.holdfast.admin('GET', `${TENANTS}/${tenant.tenant_id}`)).status).toBe(404);
    expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'forged_request' })).toBe(
      before + 1,
    );
    const logIn = await page.send('POST', '/console/api/login', { body: { key: ADMIN_API_KEY }, headers });
    expect([logIn.status, logIn.headers.get('set-cookie')]).toEqual([403, null]);
  });

  test('is refused: without the header of the console', async () => {
    await page.logIn();
    const { status } = await fetch(page.url + TENANTS, {
      method: 'POST',
      headers: { cookie: page.cookie, origin: page.url, 'content-type': 'application/json' },
      body: JSON.stringify(newTenant()),
    });
    expect(status).toBe(403);
  });
});

describe('VIEWER_API_KEY', () => {
  test('reads everything and changes nothing, as a session and as a key', async () => {
    expect((await page.logIn(VIEWER_API_KEY)).body.session.role).toBe('viewer');
    const key = { 'x-admin-api-key': VIEWER_API_KEY };
    const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'missing_role' });
    expect((await page.send('GET', TENANTS)).status).toBe(200);
    expect((await on.holdfast.call('GET', TENANTS, { headers: key })).status).toBe(200);
    expect((await page.send('POST', TENANTS, { body: newTenant() })).status).toBe(403);
    const refused = await on.holdfast.call('POST', TENANTS, { headers: key, body: newTenant() });
    expect([refused.status, refused.body.error]).toEqual([403, 'INSUFFICIENT_PERMISSIONS']);
    expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'missing_role' })).toBe(
      before + 2,
    );
  });
});
