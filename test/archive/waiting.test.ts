import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ArchiveFolder } from '../../src/archive/archive-folder.js';
import type { ArchivePartition } from '../../src/archive/archive-partition.js';
import { ARCHIVE_METRICS } from '../../src/archive/archive.metrics.js';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import { StreamArchiver } from '../../src/archive/stream-archiver.js';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import { CONFIG, type HoldfastConfig } from '../../src/config/index.js';
import {
  auditLogKey,
  eventLogKey,
  journalKey,
  journalPlacesKey,
  partitionOfTenant,
  RedisService,
  tagOfPartition,
} from '../../src/redis/index.js';
import { MetricsRegistry } from '../../src/telemetry/index.js';
import { readArchive } from '../support/archive.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';

/** What waits for an archiver, which here only works when a test calls it. */

let redis: Store;
let client: StoreClient;
let holdfast: Holdfast;
let root: string;

beforeAll(async () => {
  redis = await startStore();
  client = connectTo(redis.url);
  root = await mkdtemp(join(tmpdir(), 'archive-'));
  holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: root,
    HOLDFAST_ROLES: 'api,archiver',
    PARTITIONS: '2',
    archiveFlushMs: 3_600_000,
    archiveSettleMs: 0,
    // Any lag is one to warn of.
    archiveAlertMs: 0,
    // The lag is counted with each beat, three in a lease.
    archiveLeaseMs: 9000,
  });
});
afterAll(async () => {
  await holdfast.stop();
  await client.quit();
  await redis.stop();
  await rm(root, { recursive: true, force: true });
});

const TAG = tagOfPartition(0);

async function tenantIn(partition: number): Promise<TestTenant> {
  let tenant: TestTenant;
  do {
    tenant = await holdfast.fundedTenant(10);
  } while (partitionOfTenant(tenant.id, 2) !== partition);
  return tenant;
}

test('entries that are packed wait for the archiver, are no longer to be packed, and show as lag', async () => {
  // What settles before an archiver has noted where it begins would be archived at once.
  await eventually('the partitions, and where they begin', () => {
    const held = [...holdfast.app.get(ArchiverService).leases.held.values()];
    return held.length === 2 && held.every(({ isBusy, streams }) => !isBusy && streams.charges.throughMs > 0);
  });
  expect(await holdfast.metric('holdfast_archive_lease_changes_total', { change: 'taken' })).toBe(2);
  for (const partition of [0, 0, 1, 1]) {
    const tenant = await tenantIn(partition);
    const id = await holdfast.hold(tenant, 2);
    expectStatus(await holdfast.commit(tenant, id, 1), 200);
  }
  await holdfast.app.get(RecordJanitor).pack(Infinity);
  await holdfast.app.get(RecordJanitor).pack(Infinity);
  const lengths = await Promise.all([0, 1].map((number) => client.xlen(journalKey(tagOfPartition(number)))));
  expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(4);
  expect(await holdfast.metric('holdfast_records_to_pack')).toBe(0);
  await eventually('lag', async () => (await holdfast.metric('holdfast_archive_lag_seconds')) > 0);
  const warnings = await eventually(
    'readiness to warn of it',
    async () => (await holdfast.call('GET', '/health/ready')).body.details.archiver.warnings as unknown,
  );
  expect(warnings).toEqual([
    {
      code: 'archive_behind',
      message: expect.stringMatching(/its oldest entry has waited for \d+ ms\. Look/),
    },
  ]);
});

/** An archiver of the test's own, which works when the test says so. */
function ownArchiver(): StreamArchiver {
  const { thread } = holdfast.app.get(ArchiverService);
  const counts = holdfast.app.get(MetricsRegistry).of(ARCHIVE_METRICS);
  const config = holdfast.app.get<HoldfastConfig>(CONFIG);
  return new StreamArchiver(holdfast.app.get(RedisService), new ArchiveFolder(root), thread, counts, config);
}

/** A partition that the instance holds and, until the test lets it go, leaves alone. */
async function restingPartition(number: number): Promise<ArchivePartition> {
  const { leases } = holdfast.app.get(ArchiverService);
  return eventually('the archiver rests', () => {
    const partition = leases.held.get(number);
    return partition?.isBusy === false && Object.assign(partition, { isBusy: true });
  });
}

const turn = { goesOn: () => true };

test('an archiver that is mistaken about the cursor writes nothing, and learns where it is', async () => {
  const service = holdfast.app.get(RedisService);
  const { leases } = holdfast.app.get(ArchiverService);
  const archiver = ownArchiver();
  const partition = await restingPartition(0);
  partition.streams.charges.cursor = '1-1';
  await archiver.archive(partition, 'charges', leases.instance, turn);
  expect(partition.streams.charges.cursor).toBe('0-0');
  expect(await holdfast.metric('holdfast_archive_cursors_moved_total')).toBe(1);
  expect((await readArchive(root, service)).rows).toEqual([]);
  // Nor does one whose lease another has.
  await archiver.archive(partition, 'charges', 'another', turn);
  expect((await readArchive(root, service)).rows).toEqual([]);
  await archiver.archive(partition, 'charges', leases.instance, turn);
  expect((await readArchive(root, service)).rows.length).toBeGreaterThan(0);
  partition.isBusy = false;
});

test('beyond 200,000 entries of a partition the oldest give way, and are a gap', async () => {
  const cursor = (await client.hget(journalPlacesKey(TAG), 'cursor')) as string;
  // Otherwise, the archiver could pass the entries before they are lost.
  const partition = await restingPartition(0);
  await client.eval(
    "for i = 1, 200050 do redis.call('XADD', KEYS[1], '*', 'id', 'x', 'ch', '0') end",
    1,
    journalKey(TAG),
  );
  const last = (await client.xrevrange(journalKey(TAG), '+', '-', 'COUNT', 1))[0]?.[0] as string;
  // As if packing had passed them.
  await client.hset(journalPlacesKey(TAG), { packed: last, kept: await client.xlen(journalKey(TAG)) });
  const janitor = holdfast.app.get(RecordJanitor);
  await client.xadd(journalKey(TAG), '*', 'id', 'y', 'ch', '0');
  await janitor.pack(Infinity);
  expect(await client.xlen(journalKey(TAG))).toBe(200_000);
  expect(await holdfast.metric('holdfast_journal_entries_lost_total')).toBeGreaterThanOrEqual(50);
  partition.isBusy = false;
  const first = (await client.xrange(journalKey(TAG), '-', '+', 'COUNT', 1))[0]?.[0] as string;
  const lost = (await client.hget(journalPlacesKey(TAG), 'lost')) as string;
  await eventually(
    'the cursor to pass them',
    async () => (await client.hget(journalPlacesKey(TAG), 'cursor')) !== cursor,
  );
  const { gaps } = await readArchive(root, holdfast.app.get(RedisService));
  expect(gaps).toMatchObject([{ partition: 0, why: 'MISSING', toMs: Number.parseInt(lost, 10) }]);
  expect(Number.parseInt(lost, 10)).toBeLessThanOrEqual(Number.parseInt(first, 10));
});

test('a damaged entry is a row with its place alone, and counted', async () => {
  const { leases } = holdfast.app.get(ArchiverService);
  const tag = tagOfPartition(0);
  const failures = (): Promise<number> =>
    holdfast.metric('holdfast_archive_failures_total', { step: 'read' });
  const before = await failures();
  const partition = await restingPartition(0);
  const entry = await client.xadd(auditLogKey(tag), '*', 'not', 'a row');
  // The first time, it may only learn where the cursor is.
  const row = await eventually('the entry is archived', async () => {
    await ownArchiver().archive(partition, 'audit', leases.instance, turn);
    const { rows } = await readArchive(root, holdfast.app.get(RedisService), 'audit');
    return rows.find((one) => one['entry'] === entry);
  });
  partition.isBusy = false;
  expect(row).toMatchObject({ partition: 0, operation: null });
  expect(await failures()).toBe(before + 1);
});

const TRIMS = {
  events: (tag: string) =>
    holdfast.app
      .get(RedisService)
      .scripts.call(
        'trim_event_log',
        { eventLog: eventLogKey(tag) },
        { retentionMs: 0, unreadMs: 0, limit: 1000 },
      ),
  audit: (tag: string) =>
    holdfast.app
      .get(RedisService)
      .scripts.call(
        'trim_audit_log',
        { auditLog: auditLogKey(tag) },
        { logName: 'audit', retentionMs: 0, limit: 1000 },
      ),
};

test.each([
  ['events', eventLogKey],
  ['audit', auditLogKey],
] as const)(
  'rows of %s that lapse before they are archived are a gap',
  async (kind, logKey) => {
    const { leases } = holdfast.app.get(ArchiverService);
    const tag = tagOfPartition(1);
    const places = journalPlacesKey(tag);
    const cursor = (): Promise<string | null> => client.hget(places, `${kind}-cursor`);
    const partition = await restingPartition(1);
    await tenantIn(1);
    await eventually('a row', async () => (await client.xlen(logKey(tag))) > 0);
    await ownArchiver().archive(partition, kind, leases.instance, turn);
    const archived = (await cursor()) as string;
    expect(archived).not.toBe('0-0');
    await tenantIn(1);
    await eventually(
      'a row that is not archived',
      async () => (await client.xrange(logKey(tag), `(${archived}`, '+', 'COUNT', 1)).length === 1,
    );
    expect(await TRIMS[kind](tag)).toMatchObject({ status: 'TRIMMED', more: false });
    const lost = (await client.hget(places, `${kind}-lost`)) as string;
    partition.isBusy = false;
    await eventually('the cursor to pass them', async () => (await cursor()) === lost, 60_000);
    const { gaps } = await readArchive(root, holdfast.app.get(RedisService), kind);
    expect(gaps).toMatchObject([{ partition: 1, why: 'MISSING', toMs: Number.parseInt(lost, 10) }]);
  },
  90_000,
);
