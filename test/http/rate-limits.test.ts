import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { OperatorKeys } from '../../src/auth/operator-keys.js';
import { WindowClock } from '../../src/auth/rate-limits.js';
import { loadConfig } from '../../src/config/config.js';
import { apiKeyKey, RedisService, tagOfKeyId } from '../../src/redis/index.js';
import { shows } from '../compatibility/shows.js';
import { ConsoleClient } from '../support/console-client.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type TestTenant,
} from '../support/holdfast.js';
import type { Settings } from '../support/settings.js';

const UNKNOWN_KEY = `cyc_live_00${'a'.repeat(43)}`;

/** A client behind a proxy on this machine. */
const from = (address: string): Record<string, string> => ({ 'x-forwarded-for': address });

const started: Holdfast[] = [];

async function start(env: Settings = {}): Promise<Holdfast> {
  const holdfast = await Holdfast.start(env);
  started.push(holdfast);
  return holdfast;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((holdfast) => holdfast.stop()));
});

/** Moves only the clock of the rate limits' windows. */
function later(holdfast: Holdfast, ms: number): void {
  const clock = holdfast.app.get(WindowClock, { strict: false });
  const nowMs = clock.nowMs.bind(clock);
  jest.spyOn(clock, 'nowMs').mockImplementation(() => nowMs() + ms);
}

function expectLimited(answer: Answer): void {
  expectRefusal(answer, 429, 'LIMIT_EXCEEDED');
  const wait = answer.headers.get('retry-after') ?? '';
  expect(wait).toMatch(/^[1-9]\d?$/);
  expect(Number(wait)).toBeLessThanOrEqual(60);
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
  expect(
    Math.abs(Number(answer.headers.get('x-ratelimit-reset')) - Date.now() / 1000 - Number(wait)),
  ).toBeLessThan(5);
}

describe('the limit of each API key', () => {
  const balances = (holdfast: Holdfast, key: string): Promise<Answer> =>
    holdfast.call('GET', '/v1/balances?tenant=', { key });

  test('is off unless it is set, and the headers say so', async () => {
    const holdfast = await start();
    const tenant = await holdfast.fundedTenant();
    for (let count = 0; count < 50; count += 1) {
      const { headers } = await holdfast.reserve(tenant, 1);
      expect([
        headers.get('x-ratelimit-remaining'),
        headers.get('x-ratelimit-reset'),
        headers.get('retry-after'),
      ]).toEqual(['-1', '0', null]);
    }
  });

  test('counts down, refuses without touching the ledger, and starts anew in the next window', async () => {
    shows('throttling');
    const holdfast = await start({ RATE_LIMIT_PER_KEY_PER_MINUTE: '3' });
    const tenant = await holdfast.fundedTenant();
    const remaining: (string | null)[] = [];
    for (let count = 0; count < 3; count += 1) {
      const answer = await holdfast.reserve(tenant, 10);
      expectStatus(answer, 200);
      remaining.push(answer.headers.get('x-ratelimit-remaining'));
      expect(Math.abs(Number(answer.headers.get('x-ratelimit-reset')) - Date.now() / 1000 - 60)).toBeLessThan(
        10,
      );
    }
    expect(remaining).toEqual(['2', '1', '0']);
    const refused = await holdfast.reserve(tenant, 10);
    expectLimited(refused);
    expect(refused.headers.get('x-cycles-tenant')).toBe(tenant.id);
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'api_key' })).toBe(1);
    later(holdfast, 60_000);
    expect(await holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '970 30 0 0' });
  });

  test('counts what is refused for other reasons, and not what other keys, operators or the governance plane do', async () => {
    const holdfast = await start({ RATE_LIMIT_PER_KEY_PER_MINUTE: '2' });
    const tenant = await holdfast.fundedTenant();
    const powerless = await holdfast.createKey(tenant.id, { permissions: ['events:read'] });
    expectRefusal(await balances(holdfast, powerless), 403, 'FORBIDDEN');
    expectRefusal(
      await holdfast.call('POST', '/v1/reservations', { key: powerless, body: {} }),
      403,
      'FORBIDDEN',
    );
    expectLimited(await balances(holdfast, powerless));

    expectStatus(await holdfast.reserve(tenant, 1), 200);
    for (let count = 0; count < 3; count += 1) {
      const lookUp = await holdfast.call(
        'GET',
        `/v1/admin/budgets/lookup?scope=tenant:${tenant.id}&unit=TOKENS`,
        { key: tenant.key },
      );
      expectStatus(lookUp, 200);
      expect(lookUp.headers.get('x-ratelimit-remaining')).toBe('-1');
      const listed = await holdfast.admin('GET', `/v1/reservations?tenant=${tenant.id}`);
      expectStatus(listed, 200);
      expect(listed.headers.get('x-ratelimit-remaining')).toBe('-1');
    }
    expectStatus(await holdfast.reserve(tenant, 1), 200);
    expectLimited(await holdfast.reserve(tenant, 1));
  });
});

describe('the limit of failed authentications', () => {
  const TRUSTING = { TRUST_PROXY: 'loopback', RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '2' };

  const withKey = (holdfast: Holdfast, key: string | undefined, address: string): Promise<Answer> =>
    holdfast.call('GET', '/v1/reservations', { key, headers: from(address) });
  const withAdminKey = (holdfast: Holdfast, adminKey: string, address: string): Promise<Answer> =>
    holdfast.call('GET', '/v1/admin/tenants?limit=1', {
      headers: { ...from(address), 'x-admin-api-key': adminKey },
    });

  test('by default refuses the 31st wrong key or log-in of one address in a minute', async () => {
    const { rateLimitAuthFailuresPerMinute } = loadConfig({ ADMIN_API_KEY });
    const holdfast = await start({
      TRUST_PROXY: 'loopback',
      RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: String(rateLimitAuthFailuresPerMinute),
    });
    const page = new ConsoleClient(holdfast.url);
    const logIn = async (address: string): Promise<number> => {
      const asked = { body: { key: 'a guess' }, headers: from(address) };
      return (await page.send('POST', '/console/api/login', asked)).status;
    };
    for (let count = 0; count < 15; count += 1) {
      expect(await logIn('192.0.2.1')).toBe(401);
      expectRefusal(await withAdminKey(holdfast, 'a guess', '192.0.2.1'), 401, 'UNAUTHORIZED');
    }
    expect(await logIn('192.0.2.1')).toBe(429);
    expectLimited(await withAdminKey(holdfast, 'a guess', '192.0.2.1'));
    expect(await logIn('192.0.2.2')).toBe(401);
  });

  test('counts operators of all addresses together, too, up to ten times as many, and no API keys', async () => {
    const holdfast = await start(TRUSTING);
    const page = new ConsoleClient(holdfast.url);
    // What an address fails beyond its own limit uses up nothing of the others.
    for (let address = 1; address <= 10; address += 1) {
      for (const expected of [401, 401, 429]) {
        expectStatus(await withAdminKey(holdfast, 'a guess', `192.0.2.${address}`), expected);
      }
    }
    expectLimited(await withAdminKey(holdfast, 'a guess', '192.0.2.11'));
    const asked = { body: { key: 'a guess' }, headers: from('192.0.2.12') };
    expect((await page.send('POST', '/console/api/login', asked)).status).toBe(429);
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'auth_failures_in_all' })).toBe(2);
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'auth_failures' })).toBe(10);
    // Whoever has a valid key is not locked out.
    expectStatus(await withAdminKey(holdfast, ADMIN_API_KEY, '192.0.2.11'), 200);
    expectRefusal(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.11'), 401, 'UNAUTHORIZED');
    later(holdfast, 60_000);
    expectRefusal(await withAdminKey(holdfast, 'a guess', '192.0.2.11'), 401, 'UNAUTHORIZED');
  });

  test('does not count requests without a key', async () => {
    const holdfast = await start(TRUSTING);
    for (let count = 0; count < 5; count += 1) {
      expectRefusal(await withKey(holdfast, undefined, '192.0.2.1'), 401, 'UNAUTHORIZED');
      expectRefusal(await holdfast.call('GET', '/v1/admin/tenants'), 401, 'UNAUTHORIZED');
    }
    expectRefusal(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.1'), 401, 'UNAUTHORIZED');
  });

  test('turns further failures of one source into 429, whatever its form, and still accepts a valid one from it', async () => {
    const holdfast = await start(TRUSTING);
    const tenant = await holdfast.createTenant();
    expectRefusal(await withKey(holdfast, 'malformed', '192.0.2.1'), 401, 'UNAUTHORIZED');
    expectRefusal(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.1'), 401, 'UNAUTHORIZED');
    for (const key of ['other', 'malformed', UNKNOWN_KEY]) {
      expectLimited(await withKey(holdfast, key, '192.0.2.1'));
    }
    for (let count = 0; count < 5; count += 1) {
      const admitted = await withKey(holdfast, tenant.key, '192.0.2.1');
      expectStatus(admitted, 200);
      expect(admitted.headers.get('x-ratelimit-remaining')).toBe('-1');
    }
    expectRefusal(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.2'), 401, 'UNAUTHORIZED');
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'auth_failures' })).toBe(3);
    later(holdfast, 60_000);
    expectRefusal(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.1'), 401, 'UNAUTHORIZED');
  });

  test('counts no secret that somebody was given: each time, it gets its own 401', async () => {
    const holdfast = await start(TRUSTING);
    const page = new ConsoleClient(holdfast.url);
    const { client } = holdfast.app.get(RedisService);
    const [revoked, expired, suspended, closed] = await Promise.all(
      Array.from({ length: 4 }, () => holdfast.createTenant()),
    );
    const keyIdOf = async ({ id }: TestTenant): Promise<string> =>
      expectStatus(await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${id}`), 200).keys[0].key_id;
    const becomes = async ({ id }: TestTenant, status: string): Promise<void> =>
      void expectStatus(await holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { status }), 200);
    expectStatus(await holdfast.admin('DELETE', `/v1/admin/api-keys/${await keyIdOf(revoked!)}`), 200);
    const expiredId = await keyIdOf(expired!);
    const tag = tagOfKeyId(expiredId, holdfast.app.get(RedisService).partitions) as string;
    await client.hset(apiKeyKey(tag, expiredId), 'expires_at', '1700000000000');
    await becomes(suspended!, 'SUSPENDED');
    await becomes(closed!, 'CLOSED');
    const operators = [];
    for (const name of ['left', 'lapsed']) {
      const made = await holdfast.admin('POST', '/ops/operators', { name, role: 'viewer' });
      operators.push(expectStatus(made, 201).key_secret as string);
    }
    expectStatus(await holdfast.admin('DELETE', '/ops/operators/left?reason=left'), 200);
    const { tag: ofOperators } = holdfast.app.get(OperatorKeys, { strict: false });
    await client.hset(`${ofOperators}op:lapsed`, 'expires_at', '1700000000000');
    for (let count = 0; count < 4; count += 1) {
      for (const { key } of [revoked!, expired!, suspended!, closed!]) {
        expectRefusal(await withKey(holdfast, key, '192.0.2.1'), 401, 'UNAUTHORIZED');
      }
      for (const key of operators) {
        expectRefusal(await withAdminKey(holdfast, key, '192.0.2.1'), 401, 'UNAUTHORIZED');
        const asked = { body: { key }, headers: from('192.0.2.1') };
        expect((await page.send('POST', '/console/api/login', asked)).status).toBe(401);
      }
    }
    for (const expected of [401, 401, 429]) {
      expectStatus(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.1'), expected);
      expectStatus(await withAdminKey(holdfast, 'wrong', '192.0.2.1'), expected);
    }
    // Not after guesses either.
    expectRefusal(await withKey(holdfast, revoked!.key, '192.0.2.1'), 401, 'UNAUTHORIZED');
    expectRefusal(await withAdminKey(holdfast, operators[0] as string, '192.0.2.1'), 401, 'UNAUTHORIZED');
    expect(await holdfast.metric('holdfast_auth_failures_total', { reason: 'revoked_operator' })).toBe(9);
  });

  test('counts API keys and the admin key separately', async () => {
    const holdfast = await start(TRUSTING);
    for (const expected of [401, 401, 429]) {
      expectStatus(await withAdminKey(holdfast, 'wrong', '192.0.2.1'), expected);
    }
    expectStatus(await withAdminKey(holdfast, ADMIN_API_KEY, '192.0.2.1'), 200);
    for (const expected of [401, 401, 429]) {
      expectStatus(await withKey(holdfast, UNKNOWN_KEY, '192.0.2.1'), expected);
    }
  });

  test('does not count a lacking permission as a failure', async () => {
    const holdfast = await start(TRUSTING);
    const tenant = await holdfast.createTenant();
    const key = await holdfast.createKey(tenant.id, { permissions: ['events:read'] });
    for (let count = 0; count < 5; count += 1) {
      expectRefusal(await withKey(holdfast, key, '192.0.2.1'), 403, 'FORBIDDEN');
    }
  });
});

describe('the limit of public documents', () => {
  const read = (holdfast: Holdfast, path: string, address: string, method = 'GET'): Promise<Answer> =>
    holdfast.call(method, path, { headers: from(address) });

  test('by default refuses the 301st read from one address in a minute, and no other address', async () => {
    const holdfast = await start({ TRUST_PROXY: 'loopback' });
    for (let count = 0; count < 300; count += 1) {
      const { status, headers } = await read(holdfast, '/docs/start.js', '192.0.2.1');
      expect([status, headers.get('x-ratelimit-remaining')]).toEqual([200, String(299 - count)]);
    }
    for (const path of ['/docs/start.js', '/docs', '/openapi.json', '/docs/no-such-file']) {
      expectLimited(await read(holdfast, path, '192.0.2.1'));
    }
    expect((await read(holdfast, '/openapi.json', '192.0.2.1', 'HEAD')).status).toBe(429);
    for (const path of ['/health/live', '/health/ready', '/actuator/health']) {
      const { status, headers } = await read(holdfast, path, '192.0.2.1');
      expect([status, headers.get('x-ratelimit-remaining')]).toEqual([200, null]);
    }
    expectStatus(await read(holdfast, '/openapi.json', '192.0.2.2'), 200);
    expect(await holdfast.metric('holdfast_rate_limited_total', { limit: 'public' })).toBe(5);
    later(holdfast, 60_000);
    expectStatus(await read(holdfast, '/docs', '192.0.2.1'), 200);
  });

  test('can be switched off', async () => {
    const holdfast = await start({ rateLimitPublicPerMinute: 0 });
    for (let count = 0; count < 310; count += 1) {
      const { status, headers } = await read(holdfast, '/docs/start.js', '192.0.2.1');
      expect([status, headers.get('x-ratelimit-remaining')]).toEqual([200, null]);
    }
  });

  test('trusts X-Forwarded-For only if configured, and then only the part that the proxy added', async () => {
    const remaining = async (holdfast: Holdfast, chain: string): Promise<string | null> =>
      (await read(holdfast, '/docs/start.js', chain)).headers.get('x-ratelimit-remaining');
    const wary = await start({ rateLimitPublicPerMinute: 9 });
    expect(await remaining(wary, '192.0.2.1')).toBe('8');
    expect(await remaining(wary, '192.0.2.2')).toBe('7');

    const elsewhere = await start({ rateLimitPublicPerMinute: 9, TRUST_PROXY: '10.0.0.0/8' });
    expect(await remaining(elsewhere, '192.0.2.1')).toBe('8');
    expect(await remaining(elsewhere, '192.0.2.2')).toBe('7');

    const trusting = await start({ rateLimitPublicPerMinute: 9, TRUST_PROXY: 'loopback,10.0.0.0/8' });
    expect(await remaining(trusting, '192.0.2.1')).toBe('8');
    expect(await remaining(trusting, '192.0.2.2')).toBe('8');
    expect(await remaining(trusting, 'claimed, 192.0.2.1')).toBe('7');
    expect(await remaining(trusting, '198.51.100.7, 192.0.2.1, 10.1.1.1')).toBe('6');
    expect(await remaining(trusting, '2001:db8::1')).toBe('8');
    expect(await remaining(trusting, '2001:db8::2')).toBe('7');
  });
});
