import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { readPlaces } from '../../src/archive/archive-places.js';
import { RedisService } from '../../src/redis/index.js';
import { testClockKey } from '../../src/redis/keyspace.js';
import { doubled, readArchive } from '../support/archive.js';
import {
  allArchived,
  begin,
  buildArchiver,
  kill,
  load,
  PARTITIONS,
  serviceOf,
  startArchiver,
} from '../support/archiver-process.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { advanceClock } from '../support/test-clock.js';

const HOUR_MS = 3_600_000;
/** As test/fault/full-disk.test.ts: to a program, a limit on the size of files is a write that fails, as on a full disk. */
const DEAF_TO_THE_SIGNAL = ['sh', '-c', 'trap "" XFSZ; exec "$@"', 'sh'];
const canLimit = spawnSync('prlimit', ['--version']).status === 0;

let root: string;
const cleanUps: (() => Promise<unknown>)[] = [];

beforeAll(buildArchiver, 120_000);
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'archive-'));
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
  await rm(root, { recursive: true, force: true });
});

function connect(url: string): Redis {
  const client = new Redis(url);
  cleanUps.push(() => client.quit());
  return client;
}

/** Each charge of the load is in the archive once. */
async function expectArchived(client: Redis, charges: ReadonlyMap<string, number>): Promise<void> {
  const { rows, gaps } = await readArchive(root, serviceOf(client));
  expect(gaps).toEqual([]);
  expect(doubled(rows)).toEqual([]);
  expect(rows).toHaveLength(charges.size);
  expect(new Map(rows.map((row) => [String(row['record_id']), Number(row['charged'])]))).toEqual(charges);
}

async function loadOf(client: Redis, count: number): Promise<ReadonlyMap<string, number>> {
  const { charges, stop } = load(client);
  await eventually('the load has worked', () => charges.size >= count);
  await stop();
  return charges;
}

test('a failover that loses the end of the cursor loses and doubles no row', async () => {
  const [master, replica] = [await startRedis(), await startRedis()];
  const [old, promoted] = [connect(master.url), connect(replica.url)];
  await promoted.replicaof('127.0.0.1', master.port);
  await begin(old, master.port, root);
  const first = startArchiver(master.port, root);
  const charges = new Map(await loadOf(old, 200));
  await allArchived(old);
  await kill(first);
  // These reach the replica; where the archiver then comes with them does not.
  (await loadOf(old, 200)).forEach((charge, id) => charges.set(id, charge));
  await eventually('the replica has them', async () => (await old.wait(1, 100)) === 1);
  await promoted.replicaof('NO', 'ONE');
  const second = startArchiver(master.port, root);
  await allArchived(old);
  await kill(second);
  await expectArchived(old, charges);

  // A third of the new master's ends are of after the failover.
  (await loadOf(promoted, 200)).forEach((charge, id) => charges.set(id, charge));
  const third = startArchiver(replica.port, root);
  await allArchived(promoted);
  await kill(third);
  await expectArchived(promoted, charges);
});

(canLimit ? test : test.skip)(
  canLimit ? 'a full disk delays rows, and loses none' : 'a full disk (skipped: there is no prlimit)',
  async () => {
    const redis = await startRedis();
    const client = connect(redis.url);
    const archiver = startArchiver(redis.port, root, DEAF_TO_THE_SIGNAL);
    const limit = (bytes: number | 'unlimited') =>
      expect(spawnSync('prlimit', ['--pid', String(archiver.child.pid), `--fsize=${bytes}:`]).status).toBe(0);
    await eventually(
      'the archive begins',
      async () => (await readPlaces(serviceOf(client), 'charges')).size === PARTITIONS,
    );
    limit(1000);
    const charges = await loadOf(client, 300);
    await eventually('the archiver has failed', () => archiver.output.stderr.includes('EFBIG'));
    // An unfinished file has a name with a dot in front, which no reader takes, and does not stay.
    const files = () => readdirSync(root, { recursive: true }).map((name) => basename(String(name)));
    const isFile = (name: string): boolean => !name.startsWith('.') && name.includes('.parquet');
    expect(files().filter(isFile)).toEqual([]);
    limit('unlimited');
    await allArchived(client);
    await eventually('no unfinished file stays', () => files().every((name) => !name.startsWith('.')));
    await kill(archiver);
    await expectArchived(client, charges);
  },
);

test("Redis' clock set back by an hour loses and doubles no row", async () => {
  const redis = await startRedis();
  const client = connect(redis.url);
  const holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: root,
    HOLDFAST_TEST_CLOCK: 'true',
    HOLDFAST_ROLES: 'api,janitor,archiver',
    PARTITIONS: '4',
    archiveFlushMs: 0,
    archiveSettleMs: 0,
    archiveLeaseMs: 300,
  });
  cleanUps.push(() => holdfast.stop());
  const advance = async (ms: number) => await advanceClock(holdfast, { by_ms: ms });
  const tenants = await Promise.all([1, 2, 3].map(() => holdfast.fundedTenant(1000)));
  const ended: string[] = [];
  const end = async (): Promise<void> => {
    for (const tenant of tenants) {
      const id = await holdfast.hold(tenant, 2);
      expectStatus(await holdfast.commit(tenant, id, 1), 200);
      ended.push(id);
    }
  };
  const archived = async () => {
    const { rows, gaps } = await readArchive(root, holdfast.app.get(RedisService));
    expect(gaps).toEqual([]);
    return rows.map((row) => String(row['record_id'])).sort();
  };
  await advance(HOUR_MS);
  await end();
  await eventually('the first rows', async () => (await archived()).length === ended.length);
  await client.del(testClockKey());
  await end();
  // Entries go on after the last one, so they are an hour ahead of the clock, and wait for it.
  expect((await archived()).length).toBe(3);
  await advance(2 * HOUR_MS);
  await end();
  await eventually('the other rows', async () => (await archived()).length >= ended.length);
  expect(await archived()).toEqual(ended.sort());
});
