import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Redis } from 'ioredis';

import { StoreBootError, StoreUnavailable, toStoreError } from '../../src/redis/errors.js';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import { BOUND_MS, hammer, slowest, timed } from '../support/time-bound.js';

afterEach(async () => {
  await stopAllRedisServices();
  await stopAllRedis();
});

async function startBoth(): Promise<RunningService & { redis: RedisServer }> {
  const redis = await startRedis({ appendonly: true });
  return { redis, ...(await startRedisService({ REDIS_URL: redis.url })) };
}

function worksAgain({ service }: RunningService): Promise<unknown> {
  return eventually(
    'commands work again',
    async () => (await service.client.set(`probe:${randomUUID()}`, '1')) === 'OK',
  );
}

test('a start whose connections break while it prepares the store waits for it, and continues', async () => {
  const { url } = await startRedis();
  const admin = new Redis(url);
  const { load } = ScriptRegistry.prototype;
  const loading = jest.spyOn(ScriptRegistry.prototype, 'load').mockImplementationOnce(async function (
    this: ScriptRegistry,
  ) {
    await admin.call('CLIENT', 'KILL', 'SKIPME', 'yes');
    return load.call(this);
  });
  try {
    const running = await startRedisService({ REDIS_URL: url });
    expect(loading).toHaveBeenCalledTimes(2);
    expect(running.log.map(({ msg }) => msg)).toContain(
      'the store went away during the start; the start waits for it',
    );
    await worksAgain(running);
  } finally {
    loading.mockRestore();
    admin.disconnect();
  }
});

describe('a Redis that is killed', () => {
  test('fails every command within two seconds as store trouble, and commands work again when it is back', async () => {
    const running = await startBoth();
    const { redis, service } = running;
    const write = (): Promise<unknown> => service.client.set(`k:${randomUUID()}`, 'v');
    const hammering = hammer(write, 1000);
    await redis.kill();
    const outcomes = [...(await hammering), ...(await hammer(write, 300))];

    const failures = outcomes.filter(({ error }) => error !== undefined);
    expect(failures.length).toBeGreaterThan(0);
    expect(failures.every(({ error }) => toStoreError(error) instanceof StoreUnavailable)).toBe(true);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    expect(service.isReady()).toBe(false);
    await expect(service.ping()).rejects.toMatchObject({ name: 'StoreUnavailable', reason: 'connection' });
    expect((await service.status()).ready).toBe(false);

    await redis.restart();
    await worksAgain(running);
    await eventually('the service is ready', () => service.isReady());
    await service.ping();
    expect(await service.status()).toMatchObject({ ready: true, problems: [] });
  });

  test('is logged and counted once when it is lost and once when it is back, however many attempts that takes', async () => {
    const running = await startBoth();
    await running.redis.kill();
    await eventually(
      'the loss is counted',
      async () => (await running.metric('holdfast_redis_connection_lost_total')) === 1,
    );
    await eventually('some retries failed', async () => {
      await running.service.ping().catch(() => undefined);
      return running.service.client.status === 'reconnecting';
    });
    await running.redis.restart();
    await worksAgain(running);
    const lines = running.log
      .filter(({ msg }) => /connection to Redis/.test(msg))
      .map(({ level, msg }) => `${level} ${msg}`);
    expect(lines).toEqual([
      'warn lost the connection to Redis; reconnecting',
      'warn the connection to Redis is back',
    ]);
    expect(await running.metric('holdfast_redis_connection_lost_total')).toBe(1);
    expect(await running.metric('holdfast_redis_connection_restored_total')).toBe(1);
  });

  test('leaves a subscriber that receives messages again once it is back', async () => {
    const running = await startBoth();
    const heard: string[] = [];
    const subscriber = running.service.subscriber();
    subscriber.on('message', (_channel: string, message: string) => heard.push(message));
    // Subscribers subscribe again on each new connection.
    subscriber.on('ready', () => void subscriber.subscribe('news').catch(() => undefined));
    await subscriber.subscribe('news');
    await running.redis.kill();
    await running.redis.restart();
    await worksAgain(running);
    await eventually('a message arrives', async () => {
      await running.service.client.publish('news', 'hello');
      return heard.includes('hello');
    });
  });
});

describe('a Redis that has lost its functions', () => {
  test('gets the scripts as text, which is counted, until it has the functions again', async () => {
    const { service, metric } = await startBoth();
    const { client, scripts } = service;
    const budgets = budgetIndexKey('{p00}', 'acme');
    const read = (): Promise<unknown> =>
      scripts.run('balances', [budgets], ['', 10, 10, '0', 'tenant:acme', 'tenant:acme']);
    const textsRun = (): Promise<number> => metric('holdfast_script_texts_run_total');
    await read();
    expect(await textsRun()).toBe(0);
    // A full Redis loads no functions, so every call finds them missing.
    await client.config('SET', 'maxmemory', '1');
    await client.function('FLUSH');
    await read();
    expect(await textsRun()).toBe(1);
    const call = {
      keys: { budgetIndex: budgets },
      args: {
        after: '',
        limit: 10,
        examine: 10,
        includeChildren: '0',
        prefix: 'tenant:acme',
        deepest: 'tenant:acme',
        rest: [],
      },
    };
    await scripts.callMany('balances', [call, call]);
    expect(await textsRun()).toBe(3);
    await client.config('SET', 'maxmemory', '0');
    await eventually('it has them again', async () => {
      await read();
      return (await client.function('LIST', 'LIBRARYNAME', 'holdfast_*')).length === 1;
    });
    const counted = await textsRun();
    await read();
    expect(await textsRun()).toBe(counted);
  });
});

describe('a client that ioredis has given up', () => {
  test('is connected again, and so is a subscriber, with its subscriptions', async () => {
    const running = await startBoth();
    const { client } = running.service;
    const heard: string[] = [];
    const subscriber = running.service.subscriber();
    subscriber.on('message', (_channel: string, message: string) => heard.push(message));
    // Subscribers subscribe again on each new connection.
    subscriber.on('ready', () => void subscriber.subscribe('news').catch(() => undefined));
    await subscriber.subscribe('news');
    const ended = Promise.all([once(client, 'end'), once(subscriber, 'end')]);
    client.disconnect();
    subscriber.disconnect();
    await ended;
    await worksAgain(running);
    await eventually('a message arrives', async () => {
      await client.publish('news', 'hello');
      return heard.includes('hello');
    });
  });
});

describe('a Redis that is paused, with its connections open', () => {
  test('fails every command within two seconds, also those queued behind a waiting batch, and recovers', async () => {
    const running = await startBoth();
    const { redis, service } = running;
    redis.pause();
    const outcomes = await hammer(() => service.client.incr('counter'), 3000);
    expect(outcomes.every(({ error }) => toStoreError(error) instanceof StoreUnavailable)).toBe(true);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    expect((await service.status()).ready).toBe(false);

    redis.resume();
    await worksAgain(running);
    await eventually('the service is ready', async () => (await service.status()).ready);
  });

  test('does not run, when it wakes up, commands that were sent while it was paused', async () => {
    const { redis, service } = await startBoth();
    await service.client.set('asked', '0');
    redis.pause();
    const first = await timed(() => service.client.incr('asked'));
    expect(first.tookMs).toBeLessThan(BOUND_MS);
    const later = await hammer(() => service.client.incr('asked'), 2500);
    expect(later.every(({ error }) => error !== undefined)).toBe(true);
    redis.resume();
    // Commands that the kernel had accepted before the connection was dropped may still run; nothing after
    // that does.
    const counted = await eventually(
      'the counter is read',
      async () => Number(await service.client.get('asked')) + 1,
    );
    expect(counted - 1).toBeLessThanOrEqual(1);
  });

  test('does not hold up the shutdown', async () => {
    const { redis, service } = await startBoth();
    redis.pause();
    const { tookMs } = await timed(() => service.onApplicationShutdown());
    expect(tookMs).toBeLessThan(BOUND_MS);
  });
});

describe('a script that blocks Redis', () => {
  test('makes other commands fail within two seconds and succeed afterwards', async () => {
    const running = await startBoth();
    const { redis, service } = running;
    const other = new Redis(redis.url, { retryStrategy: () => null, disconnectTimeout: 100 });
    other.on('error', () => undefined);
    const busy = other
      .eval("local n = 0 while redis.call('EXISTS', 'stop') == 0 do n = n + 1 end return n", 0)
      .catch(() => undefined);
    const outcomes = await hammer(() => service.client.get('k'), 2500);
    expect(outcomes.some(({ error }) => error !== undefined)).toBe(true);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    await redis.kill();
    await busy;
    other.disconnect();
    await redis.restart();
    await worksAgain(running);
  });
});

describe('access', () => {
  test('a password is used, and it is in no log line', async () => {
    const redis = await startRedis({ password: 'a-very-secret-word' });
    const { service, log } = await startRedisService({ REDIS_URL: redis.url });
    await service.ping();
    expect(JSON.stringify(log)).not.toContain('a-very-secret-word');
  });

  test('a wrong password stops the start with one line that names the address and not the password', async () => {
    const redis = await startRedis({ password: 'right' });
    const start = startRedisService({ REDIS_URL: redis.url.replace('right', 'wr0ng-w0rd') });
    const error = await start.then(
      () => undefined,
      (failure: unknown) => failure as Error,
    );
    expect(error).toBeInstanceOf(StoreBootError);
    expect(error?.message).toMatch(
      new RegExp(`^Redis at redis://127.0.0.1:${redis.port}/0 .*WRONGPASS.*REDIS_PASSWORD$`),
    );
    expect(error?.message).not.toContain('wr0ng-w0rd');
  });

  test('a port without TLS that is asked for TLS stops the start, and TLS is named as a possible cause', async () => {
    const redis = await startRedis();
    const start = startRedisService({ REDIS_URL: redis.url.replace('redis:', 'rediss:') });
    await expect(start).rejects.toThrow(
      new RegExp(
        `^Redis at rediss://127.0.0.1:${redis.port}/0 cannot be reached \\([^)]*ETIMEDOUT[^)]*\\); if it does not use TLS, write redis:// in REDIS_URL$`,
      ),
    );
  });

  test('an address that does not respond stops the start with one line', async () => {
    // Nothing listens there.
    await expect(startRedisService({ REDIS_URL: 'redis://127.0.0.1:1' })).rejects.toThrow(
      /^Redis at redis:\/\/127.0.0.1:1\/0 cannot be reached \(.*ECONNREFUSED.*\)$/,
    );
  });

  test('a database that the server does not have is refused, and not replaced by database 0', async () => {
    const redis = await startRedis();
    await expect(startRedisService({ REDIS_URL: `${redis.url}/16` })).rejects.toThrow(
      /^Redis at redis:.*\/16 refuses database 16 \(ERR DB index is out of range\); name another in REDIS_URL$/,
    );
    await startRedisService({ REDIS_URL: `${redis.url}/15`, PARTITIONS: '16' });
    await startRedisService({ REDIS_URL: redis.url, PARTITIONS: '32' });
  });

  test('a number of partitions other than the recorded one stops the start', async () => {
    const redis = await startRedis();
    await startRedisService({ REDIS_URL: redis.url, PARTITIONS: '16' });
    await expect(startRedisService({ REDIS_URL: redis.url, PARTITIONS: '32' })).rejects.toThrow(
      'PARTITIONS is 32, but this store was created with 16; set PARTITIONS=16, or use an empty store',
    );
  });
});

/** Why TLS cannot be tested here, or undefined. The test needs openssl and a redis-server built with TLS. */
async function whyNoTls(): Promise<string | undefined> {
  try {
    execFileSync('openssl', ['version'], { stdio: 'pipe' });
  } catch {
    return 'there is no openssl to make a certificate';
  }
  try {
    await (await startRedis({ args: ['--tls-port', '0'] })).stop();
  } catch {
    return 'redis-server was built without TLS';
  }
  return undefined;
}

const noTls = await whyNoTls();

describe(noTls === undefined ? 'TLS' : `TLS (skipped: ${noTls})`, () => {
  const tlsTest = noTls === undefined ? test : test.skip;

  tlsTest('connects with the given CA, and refuses a server that this CA did not sign', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-test-tls-'));
    try {
      const cert = join(dir, 'cert.pem');
      const key = join(dir, 'key.pem');
      const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
      execFileSync(
        'openssl',
        [
          'req',
          '-x509',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-days',
          '2',
          '-keyout',
          key,
          '-out',
          cert,
          ...subject,
        ],
        { stdio: 'pipe' },
      );
      const redis = await startRedis({ tls: { cert, key } });
      const { service } = await startRedisService({ REDIS_URL: redis.url, REDIS_TLS_CA_FILE: cert });
      await service.ping();
      expect(await service.client.set('k', 'v')).toBe('OK');

      const unchecked = await startRedisService({
        REDIS_URL: redis.url,
        REDIS_TLS_REJECT_UNAUTHORIZED: 'false',
      });
      await unchecked.service.ping();

      await expect(startRedisService({ REDIS_URL: redis.url })).rejects.toThrow(
        /^Redis at rediss:.* refuses the connection \(.*self.signed.*\); check REDIS_TLS_CA_FILE$/,
      );
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
