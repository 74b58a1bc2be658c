import { randomUUID } from 'node:crypto';

import { afterEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';

import { StoreBootError } from '../../src/redis/errors.js';
import { parseInfo } from '../../src/redis/memory-guard.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';

afterEach(async () => {
  await stopAllRedisServices();
  await stopAllRedis();
});

function startOn(redis: RedisServer, env: Record<string, string> = {}): Promise<RunningService> {
  return startRedisService({ REDIS_URL: redis.url, ...env });
}

/** Changes the server's configuration behind the service's back. */
async function configure(redis: RedisServer, ...settings: string[]): Promise<void> {
  const client = new Redis(redis.url);
  await client.call('CONFIG', 'SET', ...settings);
  await client.quit();
}

/** Writes until the server is full and refuses writes or evicts keys. */
async function fill(redis: RedisServer): Promise<void> {
  const client = new Redis(redis.url);
  const value = 'x'.repeat(10_000);
  for (let i = 0; i < 2000; i += 1) {
    try {
      await client.set(`filling:${i}:${randomUUID()}`, value);
    } catch {
      break;
    }
  }
  await client.quit();
}

describe('a Redis that may evict the ledger', () => {
  test('stops the start with one line that says what to set', async () => {
    const redis = await startRedis({ maxmemory: '50mb', policy: 'allkeys-lru' });
    const start = startOn(redis);
    await expect(start).rejects.toBeInstanceOf(StoreBootError);
    await expect(start).rejects.toThrow(
      `Redis at 127.0.0.1:${redis.port} may evict the ledger: maxmemory-policy is allkeys-lru, set it to noeviction, ` +
        'or accept the loss of holds with HOLDFAST_ALLOW_EVICTION=true',
    );
  });

  test.each(['volatile-ttl', 'volatile-lru', 'allkeys-random'])(
    'is refused with the policy %s',
    async (policy) => {
      const redis = await startRedis({ maxmemory: '50mb', policy });
      await expect(startOn(redis)).rejects.toThrow(`maxmemory-policy is ${policy}`);
    },
  );

  test('is accepted while it has no limit, because then it evicts nothing', async () => {
    const redis = await startRedis({ policy: 'allkeys-lru' });
    const { service } = await startOn(redis);
    expect(await service.status()).toMatchObject({ ready: true });
    await configure(redis, 'maxmemory', '50mb');
    expect(await service.status()).toMatchObject({ ready: false });
  });

  test('is accepted when the operator says so, with a warning in the log and in health', async () => {
    const redis = await startRedis({ appendonly: true, maxmemory: '50mb', policy: 'allkeys-lru' });
    const { service, log } = await startOn(redis, { HOLDFAST_ALLOW_EVICTION: 'true' });
    const status = await service.status();
    expect(status).toMatchObject({ ready: true, problems: [] });
    expect(status.warnings).toEqual([
      { code: 'eviction_policy', message: expect.stringContaining('maxmemory-policy is allkeys-lru') },
    ]);
    expect(
      log.some(({ level, msg }) => level === 'error' && msg.startsWith('HOLDFAST_ALLOW_EVICTION IS SET.')),
    ).toBe(true);
  });

  test('turns readiness red when its policy becomes an evicting one later, and green when it is corrected', async () => {
    const redis = await startRedis({ maxmemory: '50mb' });
    const { service, log } = await startOn(redis);
    expect(await service.status()).toMatchObject({ ready: true, problems: [] });
    await configure(redis, 'maxmemory-policy', 'allkeys-lfu');
    expect(await service.status()).toMatchObject({
      ready: false,
      problems: [expect.stringContaining('allkeys-lfu')],
    });
    expect(service.guardState()).toMatchObject({ ok: false, problems: [{ code: 'eviction_policy' }] });
    await service.status();
    expect(log.filter(({ level }) => level === 'error')).toHaveLength(1);
    await configure(redis, 'maxmemory-policy', 'noeviction');
    expect(await service.status()).toMatchObject({ ready: true, problems: [] });
  });
});

describe('keys that Redis has evicted', () => {
  test('turn readiness red, and it stays red when the policy is corrected, even where eviction was allowed', async () => {
    const redis = await startRedis({ maxmemory: '10mb', policy: 'allkeys-lru' });
    const { service, metric } = await startOn(redis, { HOLDFAST_ALLOW_EVICTION: 'true' });
    expect(await service.status()).toMatchObject({ ready: true });
    await fill(redis);
    const status = await service.status();
    expect(status.ready).toBe(false);
    expect(status.problems).toEqual(
      expect.arrayContaining([expect.stringMatching(/^Redis evicted \d+ keys since this process started/)]),
    );
    expect(await metric('holdfast_redis_evicted_keys')).toBeGreaterThan(0);
    await configure(redis, 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
    expect(await service.status()).toMatchObject({
      ready: false,
      problems: [expect.stringContaining('evicted')],
    });
  });

  test('from before the start do not count, later ones do', async () => {
    const redis = await startRedis({ maxmemory: '5mb', policy: 'allkeys-lru' });
    await fill(redis);
    await configure(redis, 'maxmemory-policy', 'noeviction', 'maxmemory', '0');
    const { service } = await startOn(redis);
    expect(await service.status()).toMatchObject({ ready: true });
    await configure(redis, 'maxmemory', '5mb', 'maxmemory-policy', 'allkeys-lru');
    await fill(redis);
    expect((await service.status()).ready).toBe(false);
  });
});

describe('a full Redis that does not evict', () => {
  test('turns readiness red with "memory", and green when there is room again', async () => {
    const redis = await startRedis({ maxmemory: '5mb' });
    const { service, metric } = await startOn(redis);
    await fill(redis);
    await configure(redis, 'maxmemory', '4mb');
    expect(await service.status()).toMatchObject({
      ready: false,
      problems: [expect.stringMatching(/^memory: .* is full/)],
    });
    expect(await metric('holdfast_redis_memory_max_bytes')).toBe(4 * 1024 * 1024);
    expect(await metric('holdfast_redis_memory_used_bytes')).toBeGreaterThan(100_000);
    await configure(redis, 'maxmemory', '50mb');
    expect(await service.status()).toMatchObject({ ready: true });
    const { policy, usedBytes, evictedKeys } = await service.memory();
    expect({ policy, evictedKeys }).toEqual({ policy: 'noeviction', evictedKeys: 0 });
    expect(usedBytes).toBeGreaterThan(1_000_000);
  });
});

describe('a Redis whose settings risk the ledger', () => {
  test('says what a copy can be made from, and when the last dump was made', async () => {
    const redis = await startRedis();
    const { service } = await startOn(redis);
    expect(await service.status()).toMatchObject({ embedded: false, persistence: { appendLog: false } });
    expect(await service.status()).not.toHaveProperty('persistence.lastDumpAtMs');
    await configure(redis, 'appendonly', 'yes');
    const client = new Redis(redis.url);
    await client.save();
    const lastDumpAtMs = (await client.lastsave()) * 1000;
    await client.quit();
    expect((await service.status()).persistence).toEqual({ appendLog: true, lastDumpAtMs });
  });

  test('is warned of in readiness, which stays green, and once in the log, until they are corrected', async () => {
    const redis = await startRedis();
    const { service, log } = await startOn(redis);
    const unlimited = `Redis at 127.0.0.1:${redis.port} has no memory limit: it grows until the kernel kills it. Set maxmemory`;
    const unlogged =
      `Redis at 127.0.0.1:${redis.port} keeps no append-only log: a crash loses what changed since its last dump. ` +
      'Set appendonly yes';
    expect(await service.status()).toMatchObject({
      ready: true,
      warnings: [
        { code: 'no_memory_limit', message: unlimited },
        { code: 'no_append_log', message: unlogged },
      ],
    });
    await service.status();
    const warned = log.filter(({ level }) => level === 'warn').map(({ msg }) => msg);
    expect(warned).toEqual([unlimited, unlogged]);
    await configure(redis, 'maxmemory', '50mb', 'appendonly', 'yes');
    expect(await service.status()).toMatchObject({ ready: true, warnings: [] });
    // The rewrite of the log, which has just begun, takes memory for a while.
    await eventually('it is nearly full', async () => {
      const { usedBytes } = await service.memory();
      await configure(redis, 'maxmemory', String(Math.ceil(usedBytes * 1.05)));
      expect(await service.status()).toMatchObject({
        ready: true,
        warnings: [{ code: 'memory_near_limit', message: expect.stringContaining('Raise maxmemory') }],
      });
      return true;
    });
  });

  test('tells of its memory in metrics', async () => {
    const redis = await startRedis();
    const { service, metric } = await startOn(redis);
    const client = new Redis(redis.url);
    await client.set('short', 'lived', 'PX', 1);
    await eventually('it has lapsed', async () => (await client.exists('short')) === 0);
    const info = parseInfo(await client.info());
    await client.quit();
    await service.status();
    expect(await metric('holdfast_redis_memory_system_bytes')).toBe(Number(info.get('total_system_memory')));
    expect(await metric('holdfast_redis_memory_fragmentation_ratio')).toBeGreaterThan(0);
    expect(await metric('holdfast_redis_expired_keys')).toBe(1);
    expect(info.has('lazyfree_pending_objects') && info.has('expired_stale_perc')).toBe(true);
  });
});
