import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { StoreBootError, toStoreError } from '../../src/redis/errors.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { type LogLine, startRedisService, stopAllRedisServices } from '../support/redis-service.js';
import { expectUnavailable } from '../support/unavailable.js';

const USER = 'ledger';
const RIGHTS = ['on', '>secret', '~*', '&*', '+@all', '-@admin', '-@dangerous', '+info'];
const REFUSES = 'REDIS REFUSES TO SERVE; requests get 503';

let redis: RedisServer;
let operator: Redis;

beforeEach(async () => {
  redis = await startRedis();
  operator = new Redis(redis.url);
  operator.on('error', () => undefined);
  await operator.call('ACL', 'SETUSER', USER, ...RIGHTS);
});

afterEach(async () => {
  operator.disconnect();
  await stopAllRedisServices();
  await stopAllRedis();
});

const configure = (...settings: string[]): Promise<unknown> => operator.call('CONFIG', 'SET', ...settings);
const allow = (...rules: string[]): Promise<unknown> => operator.call('ACL', 'SETUSER', USER, ...rules);
const urlOfUser = (): string => redis.url.replace('//', `//${USER}:secret@`);

/** A way to make Redis refuse, by the reply that it gives, and how it serves again. */
const refusals: readonly {
  readonly reply: string;
  readonly reason: string;
  readonly begin: () => Promise<unknown>;
  readonly end: () => Promise<unknown>;
}[] = [
  {
    reply: 'NOPERM, for FCALL',
    reason: 'permission',
    begin: () => allow('-fcall'),
    end: () => allow('+fcall'),
  },
  {
    reply: 'NOPERM, for all that writes in scripts',
    reason: 'permission',
    begin: () => allow('-hset', '-zadd'),
    end: () => allow('+hset', '+zadd'),
  },
  {
    reply: 'NOREPLICAS',
    reason: 'replicas',
    begin: () => configure('min-replicas-to-write', '1'),
    end: () => configure('min-replicas-to-write', '0'),
  },
  {
    reply: 'MISCONF',
    reason: 'persistence',
    begin: async () => {
      // A folder of the dump's name makes each dump fail.
      mkdirSync(join(redis.dir, 'dump.rdb'));
      await configure('save', '3600 1');
      await operator.bgsave();
      await eventually('the dump has failed', async () =>
        (await operator.info('persistence')).includes('rdb_last_bgsave_status:err'),
      );
    },
    end: async () => {
      rmdirSync(join(redis.dir, 'dump.rdb'));
      await operator.save();
    },
  },
  {
    reply: 'READONLY',
    reason: 'readonly',
    begin: () => operator.replicaof('127.0.0.1', 1),
    end: () => operator.replicaof('NO', 'ONE'),
  },
  {
    reply: 'OOM',
    reason: 'memory',
    begin: () => configure('maxmemory', '1mb'),
    end: () => configure('maxmemory', '0'),
  },
];

describe('a Redis that refuses to serve', () => {
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let log: LogLine[];

  beforeEach(async () => {
    log = [];
    const lines = new Writable({
      write(chunk: Buffer, _encoding, done) {
        log.push(JSON.parse(chunk.toString()) as LogLine);
        done();
      },
    });
    holdfast = await Holdfast.start({ REDIS_URL: urlOfUser() }, { logger: createLogger('info', lines) });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 1000);
  });

  afterEach(() => holdfast.stop());

  const ready = async (): Promise<number> => (await holdfast.call('GET', '/health/ready')).status;
  const refused = (): LogLine[] => log.filter(({ msg }) => msg === REFUSES);

  test.each(refusals)(
    'with $reply is answered with 503, counted, logged once, and red at the next check',
    async ({ reason, begin, end }) => {
      expectStatus(await holdfast.reserve(tenant, 1), 200);
      await begin();
      for (const _ of [1, 2, 3]) {
        await expectUnavailable(() => holdfast.reserve(tenant, 1));
      }
      // Readiness is asked only now: nothing but the check itself can know.
      const answer = await eventually('the answer is not one from before', async () => {
        const found = await holdfast.call('GET', '/health/ready');
        return found.status === 503 && found;
      });
      expect(answer.body.details.redis.status).toBe('down');
      // After READONLY, the client looks for a new master, and has no connection meanwhile.
      expect(await holdfast.metric('holdfast_store_unavailable_total', { reason })).toBeGreaterThan(0);
      expect(await holdfast.metric('holdfast_store_unavailable_total')).toBe(3);
      expect(await holdfast.metric('holdfast_unexpected_errors_total')).toBe(0);
      expect(await holdfast.metric('holdfast_ready')).toBe(0);
      expect(refused()).toEqual([expect.objectContaining({ level: 'error', reason })]);

      await end();
      await eventually('readiness is green', async () => (await ready()) === 200);
      await eventually('it serves', async () => (await holdfast.reserve(tenant, 1)).status === 200);
      await eventually('the end is logged', async () => {
        await ready();
        return log.some(({ msg, reason: over }) => msg === 'Redis serves again' && over === reason);
      });
      expect(refused()).toHaveLength(1);
    },
  );

  test('is red at the first check, without any request', async () => {
    await configure('min-replicas-to-write', '1');
    await eventually('readiness is red', async () => (await ready()) === 503);
    expect(refused()).toEqual([expect.objectContaining({ reason: 'replicas' })]);
  });

  test('with MASTERDOWN, as a replica that may not serve old data, gets 503', async () => {
    await configure('replica-serve-stale-data', 'no');
    await operator.replicaof('127.0.0.1', 1);
    await expectUnavailable(() => holdfast.reserve(tenant, 1));
    await eventually('readiness is red', async () => (await ready()) === 503);
  });

  test('with NOPERM for a plain command gets 503, not 500', async () => {
    const { events } = expectStatus(await holdfast.admin('GET', '/v1/admin/events?limit=1'), 200);
    await allow('-xrange');
    await expectUnavailable(() => holdfast.admin('GET', `/v1/admin/events/${events[0].event_id}`));
  });
});

test('a Redis that loads its data on an open connection is answered with 503, and readiness is red', async () => {
  const source = await startRedis();
  const feeding = new Redis(source.url);
  await feeding.mset(Array.from({ length: 600 }, (_, i) => [`key:${i}`, 'x'.repeat(2000)]).flat());
  await feeding.quit();
  const holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  try {
    const tenant = await holdfast.createTenant();
    // In µs for each key. Redis answers between two keys.
    await configure('key-load-delay', '100000', 'loading-process-events-interval-bytes', '1024');
    await operator.replicaof('127.0.0.1', source.port);
    await eventually('it loads', async () => (await operator.info('persistence')).includes('loading:1'));
    const reply = await operator.get('key').catch((error: unknown) => error);
    expect(toStoreError(reply)).toMatchObject({
      reason: 'loading',
      refusal: expect.stringMatching(/^LOADING/),
    });
    // On a slow machine, the service may have lost its connection meanwhile, which is 503, too.
    await expectUnavailable(() => holdfast.reserve(tenant, 1));
    expect((await holdfast.call('GET', '/health/ready')).status).toBe(503);
  } finally {
    await redis.kill();
    await holdfast.stop();
  }
});

test('a cluster that is down is answered with 503, and readiness is red', async () => {
  const node = await startRedis({
    args: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  });
  const cluster = new Redis(node.url);
  const isOk = async (): Promise<boolean> =>
    String(await cluster.cluster('INFO')).includes('cluster_state:ok');
  await cluster.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await eventually('the cluster is up', isOk);
  const holdfast = await Holdfast.start({ REDIS_CLUSTER_NODES: `${node.host}:${node.port}` });
  try {
    const tenant = await holdfast.fundedTenant(1000);
    expectStatus(await holdfast.reserve(tenant, 1), 200);
    await cluster.call('CLUSTER', 'DELSLOTS', '0');
    await eventually('the cluster is down', async () => !(await isOk()));
    // On a busy machine, a command may reach its time limit before it has been repeated often enough.
    await eventually('the reason is counted', async () => {
      await expectUnavailable(() => holdfast.reserve(tenant, 1));
      return (await holdfast.metric('holdfast_store_unavailable_total', { reason: 'cluster' })) === 1;
    });
    expect((await holdfast.call('GET', '/health/ready')).status).toBe(503);
  } finally {
    cluster.disconnect();
    await holdfast.stop();
  }
});

describe('a start', () => {
  test('stops at a replica, with one line that names its master', async () => {
    const master = redis;
    const replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
    const start = startRedisService({ REDIS_URL: replica.url });
    await expect(start).rejects.toBeInstanceOf(StoreBootError);
    await expect(start).rejects.toThrow(
      `Redis at ${replica.url}/0 is a replica of 127.0.0.1:${master.port} and takes no writes; name the master in REDIS_URL`,
    );
  });

  test.each([
    ['FCALL', ['-fcall'], /\(NOPERM .*'?fcall/i],
    [
      'commands that scripts use',
      ['-hset', '-xgroup|create'],
      /does not let this user run HSET, XGROUP CREATE in scripts/,
    ],
  ])('stops at once without the right to %s, and says so', async (_what, rules, message) => {
    await allow(...rules);
    const start = startRedisService({ REDIS_URL: urlOfUser() });
    await expect(start).rejects.toBeInstanceOf(StoreBootError);
    await expect(start).rejects.toThrow(message);
  });

  test('succeeds on a Redis that has lost its replicas, and readiness is red until it has them', async () => {
    await (await startRedisService({ REDIS_URL: redis.url })).service.onApplicationShutdown();
    await configure('min-replicas-to-write', '1');
    const { service } = await startRedisService({ REDIS_URL: redis.url });
    expect(await service.status()).toMatchObject({
      ready: false,
      problems: ['the store has too few replicas to accept writes'],
    });
    await configure('min-replicas-to-write', '0');
    expect(await service.status()).toMatchObject({ ready: true, problems: [] });
  });
});
