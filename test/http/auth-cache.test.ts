import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { ApiKeyVerifier, hashOfSecret } from '../../src/auth/api-key-verifier.js';
import { keyRevokedChannel } from '../../src/redis/keyspace.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { LOGGER, type Logger } from '../../src/telemetry/index.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { serverTimeMs } from '../support/server-time.js';
import { commandCounts, connectTo } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

describe('the memory of API keys', () => {
  const on = useGovernance();

  const lookUp = (
    tenant: TestTenant,
    key: string | undefined,
    headers: Record<string, string> = {},
  ): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/admin/budgets/lookup?scope=tenant:${tenant.id}&unit=TOKENS`, {
      key,
      headers,
    });

  const keyRecordOf = async ({ id }: TestTenant): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${id}`), 200).keys[0];

  test('notes when a key was last used: once a minute, beside the requests', async () => {
    const tenant = await on.holdfast.fundedTenant();
    expect(await keyRecordOf(tenant)).not.toHaveProperty('last_used_at');
    const noted = (outcome: string): Promise<number> =>
      on.holdfast.metric('holdfast_api_key_uses_noted_total', { outcome });
    const before = await noted('noted');
    const startMs = await serverTimeMs(on.stored.redis);
    expectStatus(await lookUp(tenant, tenant.key), 200);
    await eventually('the use is noted', async () => (await noted('noted')) === before + 1);
    const first = (await keyRecordOf(tenant)).last_used_at as string;
    expect(Date.parse(first)).toBeGreaterThanOrEqual(startMs);
    // The next look-up in Redis finds it noted.
    const { key_id: keyId } = await keyRecordOf(tenant);
    on.holdfast.app.get(ApiKeyVerifier, { strict: false }).forget(hashOfSecret(tenant.key));
    expectStatus(await lookUp(tenant, tenant.key), 200);
    expect((await keyRecordOf(tenant)).last_used_at).toBe(first);
    // A minute later.
    await on.stored.redis.hset(
      on.stored.apiKeyKey(keyId as string),
      'last_used_at',
      String(startMs - 60_000),
    );
    on.holdfast.app.get(ApiKeyVerifier, { strict: false }).forget(hashOfSecret(tenant.key));
    expectStatus(await lookUp(tenant, tenant.key), 200);
    await eventually('the next use is noted', async () => (await noted('noted')) === before + 2);
    expect((await keyRecordOf(tenant)).last_used_at >= first).toBe(true);
  });

  test('answers also if the use of a key cannot be noted, counts that, and logs once what is no outage', async () => {
    const scripts = on.holdfast.app.get(RedisService).scripts;
    const logged = jest.spyOn(on.holdfast.app.get<Logger>(LOGGER, { strict: false }), 'error');
    const call = scripts.call.bind(scripts) as (...all: unknown[]) => Promise<never>;
    const failed = (): Promise<number> =>
      on.holdfast.metric('holdfast_api_key_uses_noted_total', { outcome: 'failed' });
    const before = await failed();
    const fault = new Error('no');
    const failures = [new StoreUnavailable('timeout'), fault, fault];
    for (const [index, failure] of failures.entries()) {
      const tenant = await on.holdfast.fundedTenant();
      const spy = jest
        .spyOn(scripts, 'call')
        .mockImplementation((name, ...rest) =>
          name === 'note_key_use' ? Promise.reject(failure) : call(name, ...rest),
        );
      expectStatus(await lookUp(tenant, tenant.key), 200);
      spy.mockRestore();
      expect(await failed()).toBe(before + index + 1);
      expect(await keyRecordOf(tenant)).not.toHaveProperty('last_used_at');
    }
    expect(logged.mock.calls).toEqual([
      [{ err: fault, key_id: expect.stringMatching(/^key_/) }, 'cannot note when API keys are used'],
    ]);
    logged.mockRestore();
  });

  /** The key's id, which its secret does not reveal. */
  async function keyIdOf(tenant: TestTenant): Promise<string> {
    const { keys } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`),
      200,
    );
    return keys[0].key_id as string;
  }

  describe('the cache', () => {
    const verifier = (): ApiKeyVerifier => on.holdfast.app.get(ApiKeyVerifier, { strict: false });
    const misses = (): Promise<number> => on.holdfast.metric('holdfast_auth_cache_misses_total');
    const hits = (): Promise<number> => on.holdfast.metric('holdfast_auth_cache_hits_total');
    const lookups = async (): Promise<number> => (await commandCounts(on.stored.redis))['get'] ?? 0;

    test('a known key costs no round trip, and is known without a promise', async () => {
      const tenant = await on.holdfast.fundedTenant();
      await eventually('all of it happens while the key is known', async () => {
        await verifier().verify(tenant.key);
        const [before, hitsBefore] = [await misses(), await hits()];
        expect(verifier().verify(tenant.key)).toMatchObject({ kind: 'tenant', tenantId: tenant.id });
        expectStatus(await lookUp(tenant, tenant.key), 200);
        expect([await misses(), await hits()]).toEqual([before, hitsBefore + 2]);
        return true;
      });
    });

    test('requests that arrive together share one lookup', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const before = await lookups();
      const callers = await Promise.all(
        Array.from({ length: 50 }, () => Promise.resolve(verifier().verify(tenant.key))),
      );
      expect(new Set(callers).size).toBe(1);
      expect((await lookups()) - before).toBe(1);
    });

    test('a response that a revocation overtook is not cached', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const asked = verifier().verify(tenant.key);
      expect(asked).toBeInstanceOf(Promise);
      verifier().forget(hashOfSecret(tenant.key));
      await asked;
      const again = verifier().verify(tenant.key);
      expect(again).toBeInstanceOf(Promise);
      await again;
    });

    test('a malformed key costs no round trip', async () => {
      const before = await lookups();
      for (const key of ['odd', `cyc_live_ff${'a'.repeat(43)}`]) {
        expectRefusal(await on.holdfast.call('GET', '/v1/balances', { key }), 401, 'UNAUTHORIZED');
      }
      expect(await lookups()).toBe(before);
    });

    test('a refusal is not cached: a key that becomes valid works immediately', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const key = on.stored.apiKeyKey(await keyIdOf(tenant));
      const until = (await on.stored.redis.hget(key, 'expires_at')) as string;
      await on.stored.redis.hset(key, 'expires_at', '1700000000000');
      expectRefusal(await lookUp(tenant, tenant.key), 401, 'UNAUTHORIZED');
      await on.stored.redis.hset(key, 'expires_at', until);
      expectStatus(await lookUp(tenant, tenant.key), 200);
    });
  });

  describe('several instances', () => {
    let other: Holdfast;
    beforeAll(async () => {
      other = await Holdfast.start({ REDIS_URL: on.redis.url });
    });
    afterAll(async () => {
      await other?.stop();
    });

    test('a key that is revoked on one instance is refused there immediately and on the other within a second', async () => {
      shows('revoked key', 'revokeApiKey');
      const tenant = await on.holdfast.fundedTenant();
      for (const holdfast of [on.holdfast, other]) {
        expectStatus(
          await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key }),
          200,
        );
      }
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${await keyIdOf(tenant)}`), 200);
      expectRefusal(await on.holdfast.reserve(tenant, 1), 401, 'UNAUTHORIZED');
      await eventually(
        'the other instance refuses',
        async () => (await other.reserve(tenant, 0)).status === 401,
        1000,
      );
    });

    test('the announcement alone makes the other one forget', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const verifier = other.app.get(ApiKeyVerifier, { strict: false });
      const forget = verifier.forget.bind(verifier);
      const heard = new Promise<string>((done) => {
        verifier.forget = (secretHash) => {
          forget(secretHash);
          done(secretHash);
        };
      });
      await verifier.verify(tenant.key);
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${await keyIdOf(tenant)}`), 200);
      expect(await heard).toBe(hashOfSecret(tenant.key));
      await expect(verifier.verify(tenant.key)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    });

    test('without an announcement a revoked key works for one second at most', async () => {
      const tenant = await on.holdfast.fundedTenant();
      expectStatus(await other.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key }), 200);
      await on.stored.redis.hset(on.stored.apiKeyKey(await keyIdOf(tenant)), 'status', 'REVOKED');
      await eventually(
        'the other instance refuses',
        async () => (await other.reserve(tenant, 0)).status === 401,
        2000,
      );
    });
  });
});

describe('authentication without Redis', () => {
  afterEach(stopAllRedis);

  test('revoked keys are heard of again over each new connection, and one that is closed as it comes back affects no other', async () => {
    const made = jest.spyOn(RedisService.prototype, 'subscriber');
    const server = await startRedis();
    const holdfast = await Holdfast.start({ REDIS_URL: server.url });
    const probe = connectTo(server.url);
    try {
      const subscriber = made.mock.results[0]?.value as Redis;
      const isHeard = async (): Promise<boolean> =>
        ((await probe.pubsub('NUMSUB', keyRevokedChannel())) as [string, number])[1] === 1;
      await eventually('it listens', isHeard);
      expect(await probe.call('CLIENT', 'KILL', 'TYPE', 'pubsub')).toBe(1);
      await eventually('it listens again', isHeard);
      const closed = new Promise<void>((done) => subscriber.once('end', () => done()));
      subscriber.once('ready', () => {
        // Before the reply to the subscription can arrive.
        subscriber.disconnect();
        subscriber.stream.destroy();
      });
      expect(await probe.call('CLIENT', 'KILL', 'TYPE', 'pubsub')).toBe(1);
      await closed;
      await eventually('it listens once more', isHeard);
    } finally {
      made.mockRestore();
      probe.disconnect();
      await holdfast.stop();
    }
  });

  test('a valid key gets 503 and never 401 while Redis is away, and works again when it is back', async () => {
    const redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
    const holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    try {
      const known = await holdfast.createTenant();
      const unknown = await holdfast.createTenant();
      await holdfast.createBudget(known, '', 10);
      expectStatus(await holdfast.reserve(known, 1), 200);
      await redis.kill();
      for (const tenant of [known, unknown]) {
        const answer = await holdfast.reserve(tenant, 1);
        expectRefusal(answer, 503, 'INTERNAL_ERROR');
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
      }
      expectRefusal(await holdfast.call('GET', '/v1/balances', { key: 'odd' }), 401, 'UNAUTHORIZED');
      expectRefusal(await holdfast.admin('GET', '/v1/admin/tenants'), 503, 'INTERNAL_ERROR');
      await redis.restart();
      await eventually('the key works again', async () => (await holdfast.reserve(known, 1)).status === 200);
    } finally {
      await holdfast.stop();
    }
  });
});
