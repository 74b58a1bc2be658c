import { afterEach, beforeAll, afterAll, describe, expect, jest, test } from '@jest/globals';
import { request as httpRequest } from 'node:http';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { claimAt } from '../../src/console/provider-claims.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { ConsoleClient } from '../support/console-client.js';
import { expectStatus, Holdfast, type Json, newTenantId } from '../support/holdfast.js';
import { passProvider, TestProvider } from '../support/identity-provider.js';
import { type Store, startStore } from '../support/store.js';

const ACCOUNTS = {
  alice: { email: 'alice@example.com', email_verified: true, groups: ['everybody', 'platform'] },
  bob: { email: 'alice@example.com', email_verified: false, preferred_username: 'bob', groups: 'auditors' },
  carol: { name: 'Carol | the owner', groups: ['owners', 'auditors'] },
  frank: {
    email: 'alice@example.com',
    email_verified: 'false',
    preferred_username: 'frank',
    groups: 'auditors',
  },
  dave: { email: 'dave@example.com', groups: ['guests'] },
  erin: { email: 'erin@example.com' },
};

let store: Store;
const open: { stop(): Promise<void> }[] = [];
beforeAll(async () => {
  store = await startStore();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((part) => part.stop()));
});
afterAll(() => store.stop());

interface World {
  readonly holdfast: Holdfast;
  readonly provider: TestProvider;
  readonly page: ConsoleClient;
}

async function world({
  clockOffsetMs = 0,
  settings = {},
  claimsInIdToken = false,
}: {
  clockOffsetMs?: number;
  settings?: Record<string, string>;
  claimsInIdToken?: boolean;
} = {}): Promise<World> {
  const provider = await TestProvider.start(clockOffsetMs);
  open.push(provider);
  const holdfast = await Holdfast.start({ REDIS_URL: store.url, ...provider.settings, ...settings });
  open.push(holdfast);
  await provider.serve({ url: holdfast.url, accounts: ACCOUNTS, claimsInIdToken });
  return { holdfast, provider, page: new ConsoleClient(holdfast.url) };
}

type ConsoleAnswer = Awaited<ReturnType<ConsoleClient['send']>>;

const cookiesOf = ({ headers }: ConsoleAnswer): string =>
  headers
    .getSetCookie()
    .map((cookie) => cookie.split(';', 1)[0])
    .join('; ');

/** Begins a log-in, keeps its cookie, and returns the address at the provider. */
async function begin(page: ConsoleClient): Promise<string> {
  const begun = await page.send('POST', '/console/api/provider/begin');
  expect(begun.status).toBe(200);
  page.cookie = cookiesOf(begun);
  return begun.body.url as string;
}

const finish = (page: ConsoleClient, query: string): Promise<ConsoleAnswer> =>
  page.send('POST', '/console/api/provider/finish', { body: { query } });

async function logIn(page: ConsoleClient, login: string): Promise<ConsoleAnswer> {
  const answer = await finish(page, await passProvider(await begin(page), login));
  if (answer.status === 200) {
    page.cookie = cookiesOf(answer);
  }
  return answer;
}

const outcomes = (holdfast: Holdfast, outcome: string): Promise<number> =>
  holdfast.metric('holdfast_provider_log_ins_total', { outcome });

async function lastAudit(holdfast: Holdfast, operation: string): Promise<Json> {
  await holdfast.app.get(AuditedRequests).settled();
  const { logs } = expectStatus(
    await holdfast.admin('GET', `/v1/admin/audit/logs?operation=${encodeURIComponent(operation)}&limit=1`),
    200,
  );
  return logs[0];
}

describe('a log-in by the identity provider', () => {
  test('uses a code with PKCE, state and nonce, and opens a session under the name and role of the account', async () => {
    const { holdfast, provider, page } = await world();
    expect((await page.send('GET', '/console/api/session')).body).toMatchObject({
      session: null,
      has_provider: true,
    });
    const url = new URL(await begin(page));
    expect(url.origin).toBe(provider.issuer);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      response_type: 'code',
      client_id: 'holdfast',
      redirect_uri: `${holdfast.url}/console/signed-in`,
      code_challenge_method: 'S256',
      scope: 'openid email profile groups',
    });
    const answer = await finish(page, await passProvider(url.href, 'alice'));
    page.cookie = cookiesOf(answer);
    const name = 'oidc:alice@example.com#alice';
    expect(answer.body.session).toMatchObject({ role: 'operator', name });
    const tenantId = newTenantId();
    const made = await page.send('POST', '/v1/admin/tenants', {
      body: { tenant_id: tenantId, name: 'Acme' },
    });
    expect(made.status).toBe(201);
    expect(await lastAudit(holdfast, 'createTenant')).toMatchObject({ resource_id: tenantId, key_id: name });
    expect(await lastAudit(holdfast, 'finishProviderLogIn')).toMatchObject({ status: 200, key_id: name });
    const { events } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenantId}`),
      200,
    );
    expect(events).toMatchObject([{ actor: { type: 'admin', key_id: name } }]);
    expect(await outcomes(holdfast, 'ok')).toBe(1);
    // An operator, not an admin.
    expect((await page.send('POST', '/ops/operators', { body: { name: 'x', role: 'admin' } })).status).toBe(
      403,
    );
  });

  test.each([
    ['bob', 'viewer', 'oidc:bob'],
    ['frank', 'viewer', 'oidc:frank'],
    ['carol', 'admin', 'oidc:Carol%20%7C%20the%20owner#carol'],
  ])('takes the most powerful role of %s, and a name that nobody can borrow', async (login, role, name) => {
    const { page } = await world({ claimsInIdToken: login === 'carol' });
    expect((await logIn(page, login)).body.session).toMatchObject({ role, name });
  });

  test('finds the role at a path inside an object', async () => {
    const { page } = await world({ settings: { OIDC_ROLE_CLAIM: 'address.role', OIDC_ROLES: 'viewer=x' } });
    const answer = await logIn(page, 'alice');
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('address.role')]);
  });

  test.each(['dave', 'erin'])('is refused for %s, whose account has no role here', async (login) => {
    const { holdfast, page } = await world();
    const answer = await logIn(page, login);
    expect([answer.status, answer.body.error]).toEqual([403, 'FORBIDDEN']);
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect(await outcomes(holdfast, 'no_role')).toBe(1);
    expect(await holdfast.metric('holdfast_auth_failures_total', { reason: 'provider_log_in' })).toBe(1);
  });

  test('finds the role at a path whose names have dots', () => {
    const claims = { 'https://a.example': { 'my.client': { roles: ['x'] } }, a: { b: 1 }, 'a.b': { c: 2 } };
    expect(claimAt(claims, 'https://a.example.my.client.roles')).toEqual(['x']);
    expect([claimAt(claims, 'a.b.c'), claimAt(claims, 'a.c'), claimAt(claims, 'toString')]).toEqual([
      2,
      undefined,
      undefined,
    ]);
  });

  test('works in two tabs at once, whichever is finished first, and one that is begun elsewhere says so', async () => {
    const { page } = await world();
    const first = await begin(page);
    const second = await begin(page);
    for (const url of [first, second]) {
      const { cookie } = page;
      const answer = await finish(page, await passProvider(url, 'alice'));
      expect(answer.status).toBe(200);
      page.cookie = cookiesOf(answer) || cookie;
    }
    const other = new ConsoleClient(page.url);
    const elsewhere = await passProvider(await begin(other), 'alice');
    await begin(page);
    const answer = await finish(page, elsewhere);
    expect([answer.status, answer.body.message]).toEqual([
      401,
      expect.stringContaining('begun a second time'),
    ]);
  });

  test('begins behind a proxy that names the default port in Host', async () => {
    const { page } = await world();
    for (const [origin, host, status] of [
      ['http://console.example.com', 'console.example.com:80', 200],
      ['https://console.example.com', 'console.example.com:443', 200],
      ['https://console.example.com', 'console.example.com:80', 403],
      ['https://console.example.com', 'console.example.com:8443', 403],
    ] as const) {
      const { port } = new URL(page.url);
      const answer = await new Promise<number | undefined>((resolve, reject) =>
        httpRequest(
          {
            host: '127.0.0.1',
            port,
            method: 'POST',
            path: '/console/api/provider/begin',
            headers: { host, origin, 'x-holdfast-console': '1' },
          },
          (response) => resolve(response.resume().statusCode),
        )
          .on('error', reject)
          .end(),
      );
      expect([origin, host, answer]).toEqual([origin, host, status]);
    }
  });

  test('is refused if the account refuses, in the words of the provider', async () => {
    const { holdfast, page } = await world();
    const answer = await finish(page, await passProvider(await begin(page), 'alice', 'abort'));
    expect([answer.status, answer.body.message]).toEqual([401, expect.stringContaining('access_denied')]);
    expect(await outcomes(holdfast, 'refused')).toBe(1);
  });

  test('is finished only by the browser that began it, once, and in time', async () => {
    const { holdfast, page } = await world();
    const query = await passProvider(await begin(page), 'alice');
    const stranger = new ConsoleClient(holdfast.url);
    expect((await finish(stranger, query)).status).toBe(401);
    // Another log-in of the same browser has another state.
    await begin(stranger);
    expect((await finish(stranger, query)).status).toBe(401);
    const clock = holdfast.app.get(RedisService).clock;
    const late = jest.spyOn(clock, 'nowMs').mockReturnValue(clock.nowMs() + 601_000);
    expect((await finish(page, query)).status).toBe(401);
    late.mockRestore();
    expect((await finish(page, query)).status).toBe(200);
    // The provider accepts a code once.
    const again = await finish(page, query);
    expect([again.status, again.headers.getSetCookie()]).toEqual([401, []]);
  });

  test('begins and ends only with requests of the page itself', async () => {
    const { page } = await world();
    for (const path of ['begin', 'finish']) {
      const answer = await page.send('POST', `/console/api/provider/${path}`, {
        body: { query: '' },
        headers: { origin: 'https://elsewhere.example.com' },
      });
      expect([answer.status, answer.headers.getSetCookie()]).toEqual([403, []]);
    }
  });

  test('keeps what it began with in a cookie that no page reads and no other site sends', async () => {
    const { page } = await world();
    const plain = await page.send('POST', '/console/api/provider/begin');
    expect(plain.headers.get('set-cookie')).toMatch(
      /^holdfast-log-in=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=600$/,
    );
    const { body } = plain;
    const state = new URL(body.url as string).searchParams.get('state') as string;
    expect(
      Buffer.from(cookiesOf(plain).split('=', 2)[1] as string, 'base64url').toString('latin1'),
    ).not.toContain(state);
  });

  test('counts against the limit of failed log-ins', async () => {
    const { holdfast, page } = await world({ settings: { RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '2' } });
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      statuses.push((await finish(page, 'code=x&state=y')).status);
    }
    expect(statuses).toEqual([401, 401, 429]);
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'auth_failures' })).toBe(1);
    // An account that the provider knows is no guess.
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect((await logIn(page, 'dave')).status).toBe(403);
    }
    // It is the same limit as that of keys.
    expect((await page.logIn('a-wrong-key')).status).toBe(429);
    expect((await page.logIn()).status).toBe(200);
  });
});

describe('the clocks', () => {
  test.each([600_000, -600_000])(
    'of the provider may be off by %d ms, because tokens live for an hour',
    async (clockOffsetMs) => {
      const { page } = await world({ clockOffsetMs });
      expect((await logIn(page, 'alice')).status).toBe(200);
    },
  );

  test('of the provider may not be so far behind that its tokens have expired, which is said and counted', async () => {
    const { holdfast, page } = await world({ clockOffsetMs: -7_200_000 });
    const answer = await logIn(page, 'alice');
    expect([answer.status, answer.body.message]).toEqual([401, expect.stringContaining('clock')]);
    expect(await outcomes(holdfast, 'invalid')).toBe(1);
  });

  test("of this host does not matter: Redis' clock decides", async () => {
    const { page } = await world();
    const query = await passProvider(await begin(page), 'alice');
    const real = Date.now;
    const off = jest.spyOn(Date, 'now').mockImplementation(() => real() + 3_600_000);
    try {
      expect((await finish(page, query)).status).toBe(200);
    } finally {
      off.mockRestore();
    }
  });
});

describe('a provider that is away', () => {
  test('is told with 503, and keys still log in; once it is back, so does the account', async () => {
    const { holdfast, provider, page } = await world();
    const query = await passProvider(await begin(page), 'alice');
    provider.freeze();
    const away = await finish(page, query);
    expect([away.status, away.headers.get('retry-after')]).toEqual([503, '5']);
    expect(away.body.message).toContain('identity provider');
    expect(await outcomes(holdfast, 'unavailable')).toBe(1);
    expect((await new ConsoleClient(holdfast.url).logIn()).status).toBe(200);
    provider.thaw();
    expect((await logIn(page, 'alice')).status).toBe(200);
    // A session does not need it.
    await provider.stop();
    expect((await page.send('GET', '/v1/admin/tenants')).status).toBe(200);
    const out = await page.send('POST', '/console/api/logout');
    expect([out.status, out.body.session]).toEqual([200, null]);
  });

  test('delays no start, and is asked at the next log-in', async () => {
    const provider = await TestProvider.start();
    open.push(provider);
    const holdfast = await Holdfast.start({ REDIS_URL: store.url, ...provider.settings });
    open.push(holdfast);
    const page = new ConsoleClient(holdfast.url);
    expect((await page.send('POST', '/console/api/provider/begin')).status).toBe(503);
    expect((await holdfast.call('GET', '/health/ready')).status).toBe(200);
    await provider.serve({ url: holdfast.url, accounts: ACCOUNTS });
    expect((await logIn(page, 'alice')).status).toBe(200);
  });
});

test('a log-out ends the session here, and leads to the log-out at the provider', async () => {
  const { provider, holdfast, page } = await world();
  await logIn(page, 'alice');
  const out = await page.send('POST', '/console/api/logout');
  const url = new URL(out.body.log_out_url as string);
  expect(url.origin).toBe(provider.issuer);
  expect(url.searchParams.get('post_logout_redirect_uri')).toBe(`${holdfast.url}/console/`);
  const [, hint = ''] = (url.searchParams.get('id_token_hint') ?? '').split('.');
  expect(JSON.parse(Buffer.from(hint, 'base64url').toString())).toMatchObject({
    sub: 'alice',
    aud: 'holdfast',
  });
  expect((await page.send('GET', '/v1/admin/tenants')).status).toBe(401);
  // A session that a key opened has nothing to end there.
  await page.logIn();
  expect((await page.send('POST', '/console/api/logout')).body).not.toHaveProperty('log_out_url');
});

test('other settings of the provider end its sessions', async () => {
  const { provider, page } = await world();
  await logIn(page, 'alice');
  const other = await Holdfast.start({
    REDIS_URL: store.url,
    ...provider.settings,
    OIDC_ROLES: 'viewer=platform',
  });
  open.push(other);
  const there = new ConsoleClient(other.url);
  there.cookie = page.cookie;
  expect((await there.send('GET', '/v1/admin/tenants')).status).toBe(401);
});

test('without a provider, there is nothing to begin', async () => {
  const holdfast = await Holdfast.start({ REDIS_URL: store.url });
  open.push(holdfast);
  for (const path of ['begin', 'finish']) {
    const answer = await new ConsoleClient(holdfast.url).send('POST', `/console/api/provider/${path}`, {
      body: { query: '' },
    });
    expect(answer.status).toBe(404);
  }
});
