import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { journalKey, tagOfPartition } from '../../src/redis/keyspace.js';
import { doubled, readArchive } from '../support/archive.js';
import {
  allArchived,
  type Archiver,
  begin,
  buildArchiver,
  kill,
  load,
  PARTITIONS,
  serviceOf,
  startArchiver,
} from '../support/archiver-process.js';
import { eventually } from '../support/eventually.js';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

/** Each costs two seconds of a processor. ARCHIVE_KILLS sets another number. */
const KILLS = Number(process.env['ARCHIVE_KILLS'] ?? 12);

let redis: RedisServer;
let client: Redis;

beforeAll(buildArchiver, 120_000);
beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
});
afterAll(async () => {
  await client.quit();
  await redis.stop();
});

/** Waits until the archiver works, then for a random part of its next turns, and kills it. */
async function killAtWork(archiver: Archiver): Promise<void> {
  await eventually('the archiver works', () => archiver.output.stdout.includes('turn'));
  await delay(Math.random() * 60);
  await kill(archiver);
}

test.each([
  ['one archiver', 1],
  ['two archivers of the same partitions', 2],
])(
  'kills of %s lose and double no row',
  async (_, archivers) => {
    await client.flushall();
    const root = await mkdtemp(join(tmpdir(), 'archive-'));
    await begin(client, redis.port, root);
    const { charges, stop } = load(client);
    const killing = Array.from({ length: archivers }, async () => {
      for (let kills = 0; kills < KILLS / archivers; kills += 1) {
        await killAtWork(startArchiver(redis.port, root));
      }
    });
    await Promise.all(killing);
    await eventually('enough to lose', () => charges.size > 1000);
    await stop();
    const last = startArchiver(redis.port, root);
    try {
      await allArchived(client);
    } finally {
      await kill(last);
    }
    const { rows, gaps } = await readArchive(root, serviceOf(client));
    expect(gaps).toEqual([]);
    expect(doubled(rows)).toEqual([]);
    expect(rows.length).toBe(charges.size);
    const found = new Map(rows.map(({ record_id: id, charged }) => [String(id), Number(charged)]));
    expect(found).toEqual(charges);
    expect(charges.size).toBeGreaterThan(1000);
    // What both have passed is gone from Redis.
    for (let number = 0; number < PARTITIONS; number += 1) {
      const tag = tagOfPartition(number);
      await new LedgerClient(client, tag, 'acme').scripts.run('pack_records', [journalKey(tag)], [100_000]);
    }
    await rm(root, { recursive: true, force: true });
  },
  240_000,
);
