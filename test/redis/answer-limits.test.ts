import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type Cluster, Command, Redis } from 'ioredis';
import { startLimit } from '../../src/redis/answer-limits.js';
import { createCommandClient } from '../../src/redis/connection.js';
import { eventually } from '../support/eventually.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { startLoneMaster } from '../support/redis-topologies.js';

const LIMIT_MS = 1500;
/** Longer than both limits of a connection. */
const STANDSTILL_MS = 1.2 * LIMIT_MS;

/** Nothing of this process goes on meanwhile, as when the machine lets it stand still. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe('a limit', () => {
  test('that nothing holds up is exceeded after its time', async () => {
    const startedAt = performance.now();
    await new Promise<void>((exceeded) => startLimit(80, exceeded));
    expect(performance.now() - startedAt).toBeGreaterThan(75);
  });

  test('that is cleared is never exceeded', async () => {
    let isExceeded = false;
    const limit = startLimit(8, () => (isExceeded = true));
    await delay(2);
    clearTimeout(limit);
    await delay(50);
    expect(isExceeded).toBe(false);
  });

  test('counts time in which the process stood still as a small part of it', async () => {
    let isExceeded = false;
    startLimit(LIMIT_MS, () => (isExceeded = true));
    standStill(STANDSTILL_MS);
    // In this time, the first of eight parts passes, and hardly another one.
    await delay(1);
    expect(isExceeded).toBe(false);
  });

  test('is exceeded when everything has been read that arrived before', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'limit-'));
    // What is written there has arrived at once. Through a port, the kernel of a busy machine may take a moment.
    const path = join(folder, 'socket');
    const server = createServer().listen(path);
    await once(server, 'listening');
    const near = connect(path);
    const [far] = (await once(server, 'connection')) as [Socket];
    let [sent, received] = [0, 0];
    near.on('data', ({ length }) => (received += length));
    const sending = setInterval(() => {
      far.write('.');
      sent += 1;
      standStill(5);
    }, 1);
    const counts = await new Promise((done) => startLimit(8, () => done([sent, received])));
    clearInterval(sending);
    near.destroy();
    far.destroy();
    server.close();
    rmSync(folder, { recursive: true });
    expect(counts).toEqual([sent, sent]);
    expect(sent).toBeGreaterThan(0);
  });
});

describe('a command', () => {
  test('without an answer fails after its limit', async () => {
    const command = new Command('ping');
    command.setTimeout(50);
    await expect(command.promise).rejects.toThrow('Command timed out');
  });
});

/** How many timers keep the process waiting. */
const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

const FORMS = ['single', 'cluster'] as const;

describe.each(FORMS)('a connection (%s)', (form) => {
  let redis: RedisServer;
  let client: Redis | Cluster;

  beforeAll(async () => {
    redis = await (form === 'cluster' ? startLoneMaster() : startRedis());
  });
  afterAll(() => redis.stop());

  beforeEach(async () => {
    const place = { host: '127.0.0.1', port: redis.port };
    client = createCommandClient(
      form === 'cluster'
        ? { mode: 'cluster', nodes: [place] }
        : { mode: 'single', ...place, db: 0, url: redis.url },
      { commandTimeoutMs: LIMIT_MS },
    );
    client.on('error', () => undefined);
    await client.connect();
    await client.get('none');
  });
  afterEach(() => client.disconnect());

  /** The connection that takes commands: a cluster has one for each node. */
  const connection = (): Redis => (client instanceof Redis ? client : (client.nodes('master')[0] as Redis));

  test('takes the replies that came while the process stood still', async () => {
    const answers = [client.get('none'), client.exists('none')];
    standStill(STANDSTILL_MS);
    expect(await Promise.all(answers)).toEqual([null, 0]);
    expect(connection().status).toBe('ready');
  });

  test('waits for a server that stood still together with the process', async () => {
    redis.pause();
    const answer = client.exists('none');
    standStill(STANDSTILL_MS);
    redis.resume();
    expect(await answer).toBe(0);
  });

  test('is dropped when the server is silent for the limit, and all commands fail with it', async () => {
    const errors: string[] = [];
    connection().on('error', ({ message }: Error) => errors.push(message));
    const closed = new Promise((done) => connection().once('close', done));
    redis.pause();
    const answers = await Promise.allSettled([client.get('none'), client.exists('none')]);
    await closed;
    redis.resume();
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(errors[0]).toMatch(/^Socket timeout\./);
  });

  test('clears the limits of commands that are answered, and of a connection that closes', async () => {
    redis.pause();
    const idle = timers();
    const answers = Array.from({ length: 20 }, () => client.get('none'));
    expect(timers()).toBeGreaterThan(idle + 20);
    redis.resume();
    await Promise.all(answers);
    expect(timers()).toBeLessThanOrEqual(idle);
    redis.pause();
    const lost = client.get('none').catch(() => undefined);
    const closed = new Promise((done) => connection().once('end', done));
    client.disconnect();
    redis.resume();
    await Promise.all([lost, closed]);
    await eventually('no timer is left', () => timers() <= idle);
  });
});
