import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomFrom } from '../../scripts/seed.mjs';
import { parseInfo } from '../../src/redis/memory-guard.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce, expectStored } from '../support/exactly-once.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { expectUnavailable } from '../support/unavailable.js';

/**
 * A full disk is simulated by a limit on the size of files. To Redis both are a failed write, and a limit
 * needs neither privileges nor a file system. The signal that comes with the limit is ignored, because a full
 * disk sends none.
 */
const DEAF_TO_THE_SIGNAL = ['sh', '-c', 'trap "" XFSZ; exec "$@"', 'sh'];
const canLimit = spawnSync('prlimit', ['--version']).status === 0;

let directory: string;
const cleanUps: (() => Promise<void> | void)[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-test-disk-'));
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
  rmSync(directory, { recursive: true, force: true });
});

function limitFiles(pid: number, bytes: number | 'unlimited'): void {
  const { status, stderr } = spawnSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`], {
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
}

/** The size of the part of the log that is written to. */
function logBytes(dir: string): number {
  const log = join(dir, 'appendonlydir');
  return statSync(join(log, readdirSync(log).find((name) => name.endsWith('.incr.aof')) as string)).size;
}

const readiness = async (holdfast: Holdfast) => (await holdfast.call('GET', '/health/ready')).status;

(canLimit ? describe : describe.skip)(
  canLimit ? 'a full disk' : 'a full disk (skipped: there is no prlimit)',
  () => {
    test('with everysec: Redis refuses to write, so nothing changes and requests get 503; reads continue; and everything recovers when there is room', async () => {
      const redis = await startRedis({
        appendonly: true,
        args: ['--appendfsync', 'everysec'],
        launcher: DEAF_TO_THE_SIGNAL,
      });
      const stored = new StoredHolds(redis.url);
      cleanUps.push(() => stored.close());
      const holdfast = await Holdfast.start({ REDIS_URL: redis.url, HOLDFAST_ROLES: 'api,sweeper' });
      cleanUps.push(() => holdfast.stop());
      const load = await JournaledLoad.make(holdfast, randomFrom(3));
      const clients = load.run(4);
      await eventually('the load is under way', () => load.acknowledged.length > 50);
      limitFiles(redis.pid, logBytes(redis.dir) + 20_000);
      await eventually('the disk is full', async () => (await load.ask()).status === 503);
      load.stop();
      await clients;

      const before = await holdfast.balances(load.tenant);
      await expectUnavailable(() => load.ask());
      const hold = load.acknowledged.find(({ kind }) => kind === 'reserve');
      for (const verb of ['commit', 'release', 'extend'] as const) {
        const body = {
          commit: { actual: { unit: 'TOKENS', amount: 1 } },
          release: {},
          extend: { extend_by_ms: 1000 },
        }[verb];
        await expectUnavailable(() =>
          holdfast.settle(load.tenant, verb, hold?.answer.reservation_id as string, body),
        );
      }
      expect(await holdfast.balances(load.tenant)).toEqual(before);
      const health = await holdfast.call('GET', '/health/ready');
      expect(health.status).toBe(503);
      expect(health.body.details.redis).toMatchObject({
        status: 'down',
        problems: ['the store cannot persist its data'],
      });

      limitFiles(redis.pid, 'unlimited');
      await eventually('it is ready', async () => (await readiness(holdfast)) === 200);
      await load.settle();
      await expectExactlyOnce(load, stored.redis);
      // Everything reaches the disk: a Redis that starts from it has the same.
      await eventually('nothing waits for the disk', async () =>
        /^aof_buffer_length:0\r?$/m.test(await stored.redis.info('persistence')),
      );
      await redis.kill();
      await redis.restart();
      await eventually('it is ready', async () => (await readiness(holdfast)) === 200);
      await expectStored(load, stored.redis);
    }, 60_000);

    test('with always: the embedded Redis ends rather than reply, is started again, and nothing that was acknowledged is lost', async () => {
      const limit = join(directory, 'limit');
      const bin = join(directory, 'bin');
      mkdirSync(bin);
      const real = spawnSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).stdout.trim();
      // Limits each start as long as the file exists.
      const script = `#!/bin/sh\ntrap "" XFSZ\n[ -e ${limit} ] && prlimit --pid $$ --fsize=$(cat ${limit}):\nexec ${real} "$@"\n`;
      writeFileSync(join(bin, 'redis-server'), script, { mode: 0o755 });
      const path = process.env['PATH'];
      process.env['PATH'] = `${bin}:${path}`;
      cleanUps.push(() => {
        process.env['PATH'] = path;
      });
      const holdfast = await Holdfast.start({
        DATA_DIR: directory,
        REDIS_APPENDFSYNC: 'always',
        HOLDFAST_ROLES: 'api,sweeper',
      });
      cleanUps.push(() => holdfast.stop());
      const stored = new StoredHolds(join(directory, 'redis', 'redis.sock'));
      stored.redis.on('error', () => undefined);
      cleanUps.push(() => stored.close());
      const load = await JournaledLoad.make(holdfast, randomFrom(4));
      const clients = load.run(4);
      await eventually('the load is under way', () => load.acknowledged.length > 50);
      const bytes = logBytes(join(directory, 'redis')) + 20_000;
      writeFileSync(limit, String(bytes));
      limitFiles(Number(parseInfo(await stored.redis.info('server')).get('process_id')), bytes);
      await eventually(
        'Redis ends',
        async () => (await holdfast.metric('holdfast_embedded_redis_restarts_total')) > 0,
      );
      await eventually('requests are refused', async () => (await load.ask()).status === 503);
      load.stop();
      await clients;
      rmSync(limit);
      await eventually('the one with room is up', async () => {
        await load.settle();
        return true;
      });
      await eventually('it is ready', async () => (await readiness(holdfast)) === 200);
      expect(load.acknowledged).toHaveLength(load.entries.length);
      await eventually('the store replies here too', async () => (await stored.redis.ping()) === 'PONG');
      await expectExactlyOnce(load, stored.redis);
      expectStatus(await load.ask(), 200);
    }, 60_000);
  },
);
