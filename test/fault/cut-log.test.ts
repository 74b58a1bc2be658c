import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce, storedFor } from '../support/exactly-once.js';
import { HoldfastClient } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { faultsOf } from '../support/ledger-state.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { startSweeper } from '../expiry/instances.js';

/**
 * A host that crashes loses the end of the log: with `everysec`, whatever was not flushed yet. No test can
 * crash its host, but it can cut off any part of the end. CRASH_CUTS sets the number of cuts, and CRASH_SEED
 * repeats those of a run.
 */
const cuts = Number(process.env['CRASH_CUTS'] ?? 4);
const seed = seedFrom('CRASH_SEED', 'cut log');
const EVERYSEC = ['--appendfsync', 'everysec'];

const cleanUps: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

function logOf(dir: string): string {
  const log = join(dir, 'appendonlydir');
  return join(log, readdirSync(log).find((name) => name.endsWith('.incr.aof')) as string);
}

/** A load in which every request got its response, and the log that Redis left when it was killed. */
async function recorded(
  random: () => number,
): Promise<{ load: JournaledLoad; redis: RedisServer; setUpBytes: number }> {
  const redis = await startRedis({ appendonly: true, args: EVERYSEC });
  const holdfast = await startSweeper({ HOLDFAST_ROLES: 'api,sweeper', REDIS_URL: redis.url });
  const load = await JournaledLoad.make(holdfast, random);
  // While a flush is in progress, Redis replies before it writes to the log.
  const stored = new StoredHolds(redis.url);
  await eventually('the log has the budgets', async () =>
    /^aof_buffer_length:0\r?$/m.test(await stored.redis.info('persistence')),
  );
  stored.close();
  const setUpBytes = statSync(logOf(redis.dir)).size;
  const clients = load.run(8);
  await eventually('the load was running', () => load.acknowledged.length > 120);
  load.stop();
  await clients;
  await redis.kill();
  await holdfast.stop();
  expect(load.acknowledged).toHaveLength(load.entries.length);
  return { load, redis, setUpBytes };
}

test('wherever the end of the log is cut off, the rest is a sound ledger, and repeating the requests completes it, each once', async () => {
  process.stdout.write(`  ${cuts} cuts\n`);
  const random = randomFrom(seed);
  const { load, redis, setUpBytes } = await recorded(random);
  const wholeBytes = statSync(logOf(redis.dir)).size;
  const first = load.holds.map(({ answer }) => answer.reservation_id as string);
  for (let cut = 0; cut < cuts; cut += 1) {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-test-cut-'));
    cleanUps.push(() => rmSync(dir, { recursive: true, force: true }));
    cpSync(redis.dir, dir, { recursive: true });
    const keptBytes = setUpBytes + Math.floor(random() * (wholeBytes - setUpBytes));
    truncateSync(logOf(dir), keptBytes);

    const left = await startRedis({ appendonly: true, args: EVERYSEC, dir });
    const stored = new StoredHolds(left.url);
    cleanUps.push(() => stored.close());
    expect(faultsOf(await storedFor(load, stored.redis))).toEqual([]);
    const survivor = await startSweeper({ HOLDFAST_ROLES: 'api,sweeper', REDIS_URL: left.url });
    load.client = new HoldfastClient(survivor.url);
    load.forget();
    await load.settle();
    const kept = load.holds.filter(({ answer }, index) => answer.reservation_id === first[index]);
    await expectExactlyOnce(load, stored.redis);
    await survivor.stop();
    stored.close();
    await left.stop();
    process.stdout.write(
      `  ${keptBytes} of ${wholeBytes} bytes kept ${kept.length} of ${first.length} reservations\n`,
    );
  }
}, 120_000);
