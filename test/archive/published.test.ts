import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { rebuildArchive } from '../../src/cli/archive-rebuild.js';
import { verifyArchive } from '../../src/cli/archive-verify.js';
import { ArchiveFolder, type Manifest, type PublishedFile } from '../../src/archive/archive-folder.js';
import { ArchivePublisher } from '../../src/archive/archive-publisher.js';
import { readPlaces } from '../../src/archive/archive-places.js';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import { removeLeftBehind } from '../../src/archive/day-publisher.js';
import {
  journalKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  tagOfTenant,
} from '../../src/redis/index.js';
import { doubled, parquetRows, readArchive } from '../support/archive.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { advanceClock } from '../support/test-clock.js';

/** A deployment with few partitions whose time the tests advance. */

let redis: Store;
let holdfast: Holdfast;
let root: string;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  root = await mkdtemp(join(tmpdir(), 'archive-'));
  holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: root,
    ARCHIVE_RETENTION_DAYS: '3',
    HOLDFAST_TEST_CLOCK: 'true',
    HOLDFAST_ROLES: 'api,janitor,archiver',
    PARTITIONS: '3',
    archiveFlushMs: 0,
    archiveSettleMs: 0,
    archiveLeaseMs: 300,
    archiveKeepMs: 0,
    archivePublishMs: 3_600_000,
  });
  // What ends before an archive begins is not in it.
  await eventually('the archive to begin', () => holdfast.app.get(ArchiverService).leases.held.size === 3);
  tenant = await holdfast.fundedTenant(1_000_000);
});

afterAll(async () => {
  await holdfast.stop();
  await redis.stop();
  await rm(root, { recursive: true, force: true });
});

const service = () => holdfast.app.get(RedisService);
const read = () => readArchive(root, service());
const folder = () => new ArchiveFolder(root);

async function spend(amount: number): Promise<string> {
  const id = await holdfast.hold(tenant, amount + 1);
  expectStatus(await holdfast.commit(tenant, id, amount), 200);
  return id;
}

async function advance(ms: number): Promise<void> {
  await advanceClock(holdfast, { by_ms: ms });
}

/** Waits until everything up to now is archived, and publishes what can be. */
async function publish(): Promise<void> {
  const nowMs = Date.parse((await holdfast.admin('GET', '/ops/test-clock')).body.now);
  await eventually('everything to be archived', async () => {
    const through = await Promise.all(
      (['charges', 'events', 'audit'] as const).map(async (kind) =>
        [...(await readPlaces(service(), kind)).values()].map(({ throughMs }) => throughMs),
      ),
    );
    const isArchived = through.flat().length === 9 && through.flat().every((ms) => ms >= nowMs);
    // Short leases may have lapsed on a busy machine.
    return isArchived && holdfast.app.get(ArchiverService).leases.held.size === 3;
  });
  await holdfast.app.get(ArchivePublisher).run();
}

const DAY_MS = 86_400_000;

/** Notes that the record of a reservation was mended, which is no charge. */
async function mend(id: string): Promise<void> {
  const nowMs = Date.parse((await holdfast.admin('GET', '/ops/test-clock')).body.now);
  const journal = journalKey(tagOfTenant(tenant.id, 3));
  await service().client.xadd(
    journal,
    `${nowMs}-*`,
    'id',
    id.slice('rsv_00'.length),
    'ch',
    '5',
    'mended',
    '1',
  );
}

test('a day is published when all partitions have passed it, and never changes again', async () => {
  const ids = [await spend(5), await spend(7)];
  await mend(ids[0] as string);
  ids.push(ids[0] as string);
  await publish();
  expect(await folder().days()).toEqual([]);
  await advance(DAY_MS);
  ids.push(await spend(11));
  await publish();
  const [day] = await folder().days();
  const manifest = JSON.parse(
    readFileSync(join(folder().publishedOf(day as string), 'manifest.json'), 'utf8'),
  ) as Manifest;
  const path = join(folder().publishedOf(day as string), 'charges.parquet');
  const content = readFileSync(path);
  const { charges, events } = manifest.files;
  expect(charges).toMatchObject({
    rows: 3,
    bytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
    sums: [{ unit: 'TOKENS', reserved: '14', charged: '12', debt: '0' }],
    gaps: [],
  });
  expect(events?.rows).toBeGreaterThan(0);
  expect((await parquetRows(path)).map((row) => row['record_id'])).toEqual(ids.slice(0, 3));
  const reading = await read();
  expect(reading.rows.map((row) => row['record_id'])).toEqual(ids);
  expect(reading.gaps).toEqual([]);
  expect(doubled(reading.rows)).toEqual([]);
  expect(await holdfast.metric('holdfast_archive_days_total', { change: 'published' })).toBe(1);

  // The staged files are removed at the second look, and what readers see stays the same.
  await holdfast.app.get(ArchivePublisher).run();
  await holdfast.app.get(ArchivePublisher).run();
  const staged = [0, 1, 2].map(async (partition) => (await folder().staged('charges', partition)).length);
  expect((await Promise.all(staged)).reduce((sum, count) => sum + count, 0)).toBe(1);
  expect((await read()).rows.map((row) => row['record_id'])).toEqual(ids);
  expect(readFileSync(path).equals(content)).toBe(true);
});

test('small files become one, and readers see the same rows', async () => {
  for (let count = 0; count < 17; count += 1) {
    await spend(1);
    await publish();
  }
  const before = (await read()).rows;
  await advance(1000);
  await publish();
  await publish();
  await publish();
  expect(await holdfast.metric('holdfast_archive_files_total', { written: 'merged' })).toBeGreaterThan(0);
  const counts = [0, 1, 2].map(async (partition) => (await folder().staged('charges', partition)).length);
  expect(Math.max(...(await Promise.all(counts)))).toBeLessThan(17);
  const { rows, gaps } = await read();
  expect(rows.map(({ entry }) => entry).sort()).toEqual(before.map(({ entry }) => entry).sort());
  expect(gaps).toEqual([]);
});

async function verify(): Promise<{ isSound: boolean; said: string[] }> {
  const said: string[] = [];
  const tell = (text: string): void => void said.push(text);
  return { isSound: await verifyArchive({ folder: root, print: tell, warn: tell }), said };
}

test('npm run archive -- verify reads every file, and names what is wrong', async () => {
  const sound = await verify();
  expect(sound).toEqual({
    isSound: true,
    said: [
      expect.stringMatching(/^epoch 1: of deployment dep_/),
      expect.stringMatching(/^\d+ files with \d+ rows, 0 faults$/),
    ],
  });
  const [day] = await folder().days();
  const path = join(folder().publishedOf(day as string), 'events.parquet');
  const content = readFileSync(path);
  // The length stays, so that only the hash can tell.
  writeFileSync(path, Buffer.from(content).fill(content[10] === 0 ? 1 : 0, 10, 11));
  const changed = await verify();
  expect(changed.isSound).toBe(false);
  expect(changed.said.join(' ')).toContain(`${folder().nameOf(path)}: it`);
  unlinkSync(path);
  expect((await verify()).said).toContain(`${folder().nameOf(path)}: it is missing`);
  writeFileSync(path, content);
  expect(await verify()).toEqual(sound);
});

test('npm run archive -- rebuild makes manifests of what the files hold, and of what staging still has', async () => {
  const rebuild = async (...days: string[]): Promise<{ isDone: boolean; said: string[] }> => {
    const said: string[] = [];
    const tell = (text: string): void => void said.push(text);
    return { isDone: await rebuildArchive({ folder: root, days, print: tell, warn: tell }), said };
  };
  const day = (await folder().days())[0] as string;
  const path = join(folder().publishedOf(day), 'charges.parquet');
  const manifestPath = join(folder().publishedOf(day), 'manifest.json');
  const [content, manifest] = [readFileSync(path), readFileSync(manifestPath, 'utf8')];
  const [sound, before] = [await verify(), await read()];
  expect(await rebuild()).toEqual({ isDone: true, said: ['1 days, 0 manifests changed'] });
  expect(await rebuild('2020-01-01')).toEqual({
    isDone: false,
    said: ['not published: 2020-01-01. Nothing was changed.'],
  });

  truncateSync(path, 50);
  const cut = await rebuild(day);
  expect(cut.isDone).toBe(false);
  expect(cut.said[0]).toContain('charges.parquet cannot be read');
  expect(readFileSync(manifestPath, 'utf8')).toBe(manifest);

  unlinkSync(path);
  expect((await rebuild(day)).said).toEqual([
    `${day}: charges.parquet has 0 rows (3 before) and 1 gaps (0 before)`,
    '1 days, 1 manifests changed',
  ]);
  const { gaps } = await read();
  expect(gaps).toMatchObject([{ why: 'MISSING' }]);
  expect((await verify()).said[1]).toContain('charges were published with a gap');

  // The operator brings the file back.
  writeFileSync(path, content);
  expect((await rebuild()).isDone).toBe(true);
  expect(readFileSync(manifestPath, 'utf8')).toBe(manifest);
  expect(await verify()).toEqual(sound);

  // The rows of the day are of one partition, so its file is what was staged.
  const [row] = await parquetRows(path);
  const partition = Number(row?.['partition']);
  const { ends } = (JSON.parse(manifest) as Manifest).files.charges as PublishedFile;
  const staged = folder().stagedPath(
    { kind: 'charges', partition, epoch: 1 },
    '0-0',
    ends[partitionCode(partition)] as string,
  );
  for (const isGap of [false, true]) {
    if (isGap) {
      unlinkSync(path);
      await rebuild();
    }
    writeFileSync(staged, content);
    if (!isGap) {
      unlinkSync(path);
    }
    expect((await rebuild()).isDone).toBe(true);
    unlinkSync(staged);
    expect(await verify()).toEqual(sound);
    expect((await read()).rows).toEqual(before.rows);
  }

  unlinkSync(manifestPath);
  expect((await verify()).isSound).toBe(false);
  expect((await rebuild()).said).toContain(`${day}: charges.parquet has 3 rows; its manifest was lost`);
  expect(await verify()).toEqual(sound);
  expect((await read()).rows).toEqual(before.rows);
  expect((await read()).gaps).toEqual([]);
});

test('a removed and a cut file are gaps with their names, in staging and published', async () => {
  const partition = [0, 1, 2];
  const staged = (await Promise.all(partition.map((one) => folder().staged('charges', one)))).flat();
  const last = staged.sort((one, other) => one.to.localeCompare(other.to)).at(-1);
  truncateSync(last?.path as string, 50);
  expect((await read()).gaps).toMatchObject([{ file: folder().nameOf(last?.path as string), why: 'CUT' }]);
  unlinkSync(last?.path as string);
  expect((await read()).gaps).toMatchObject([{ toMs: Number.parseInt(last?.to as string), why: 'MISSING' }]);

  const [day] = await folder().days();
  const path = join(folder().publishedOf(day as string), 'charges.parquet');
  truncateSync(path, 50);
  expect((await read()).gaps[0]).toMatchObject({ file: folder().nameOf(path), why: 'CUT' });
  unlinkSync(path);
  expect((await read()).gaps[0]).toMatchObject({
    file: folder().nameOf(path),
    why: 'MISSING',
    fromMs: Date.parse(day as string),
  });
  await holdfast.app.get(ArchivePublisher).run();
  expect(await holdfast.metric('holdfast_archive_gaps', { kind: 'file' })).toBe(1);
  expect(await holdfast.metric('holdfast_archive_gaps', { kind: 'lost' })).toBe(1);
  await eventually('readiness warns of the file', async () => {
    const { archiver } = (await holdfast.call('GET', '/health/ready')).body.details;
    return (archiver.warnings as Json[] | undefined)?.some(({ message }) =>
      String(message).startsWith('the archive has gaps (1)'),
    );
  });
});

test('a published day that is removed, or whose manifest is, is a gap, and nothing is published after it', async () => {
  await advance(4 * DAY_MS);
  await spend(3);
  await publish();
  const days = await folder().days();
  const [middle, last] = [days.at(-2) as string, days.at(-1) as string];
  const manifestOf = (day: string): string => join(folder().publishedOf(day), 'manifest.json');
  const gapsOf = async (day: string) =>
    (await read()).gaps.filter(({ fromMs }) => fromMs === Date.parse(day));
  expect(await gapsOf(middle)).toEqual([]);
  const named = { file: folder().nameOf(manifestOf(middle)), toMs: Date.parse(middle) + DAY_MS };

  const manifest = readFileSync(manifestOf(middle));
  truncateSync(manifestOf(middle), 20);
  expect(await gapsOf(middle)).toMatchObject([{ ...named, why: 'DAMAGED' }]);
  unlinkSync(manifestOf(middle));
  expect(await gapsOf(middle)).toMatchObject([{ ...named, why: 'MISSING' }]);
  writeFileSync(manifestOf(middle), manifest);
  const away = join(root, 'away');
  renameSync(folder().publishedOf(middle), away);
  expect(await gapsOf(middle)).toMatchObject([{ ...named, why: 'MISSING' }]);
  const said: string[] = [];
  await verifyArchive({ folder: root, print: () => undefined, warn: (text) => void said.push(text) });
  expect(said).toContain(`${named.file}: it is missing`);
  renameSync(away, folder().publishedOf(middle));
  expect(await gapsOf(middle)).toEqual([]);

  // What follows the last day is not known without its manifest.
  const ofLast = readFileSync(manifestOf(last));
  unlinkSync(manifestOf(last));
  await advance(DAY_MS);
  await expect(publish()).rejects.toThrow(`published day ${last} has no manifest.json`);
  expect(await folder().days()).toEqual(days);
  writeFileSync(manifestOf(last), ofLast);
});

test('what a killed publisher has left behind is removed after a day', async () => {
  const leave = (name: string): string => {
    const path = join(root, 'published', name);
    mkdirSync(path);
    writeFileSync(join(path, 'charges.parquet'), 'half');
    return path;
  };
  const [old, removed, recent] = [
    leave('.day=2026-01-01.0a'),
    leave('.removed-2026-01-01'),
    leave('.day=2026-01-01.0b'),
  ];
  const twoDaysAgo = new Date(Date.now() - 2 * DAY_MS);
  utimesSync(old, twoDaysAgo, twoDaysAgo);
  utimesSync(removed, twoDaysAgo, twoDaysAgo);
  await publish();
  expect([old, removed, recent].map((path) => existsSync(path))).toEqual([false, false, true]);
  await rm(recent, { recursive: true });
});

test('what a killed query has spilled into the archive is removed after some minutes, and is no part of it', async () => {
  const spill = (name: string): string => {
    const path = join(root, name);
    mkdirSync(path);
    writeFileSync(join(path, 'duckdb_temp_storage_DEFAULT-0.tmp'), 'half');
    return path;
  };
  const before = await read();
  const [old, recent] = [spill('.spill-0a'), spill('.spill-0b')];
  const tenMinutesAgo = new Date(Date.now() - 600_000);
  utimesSync(old, tenMinutesAgo, tenMinutesAgo);
  expect(await read()).toEqual(before);
  await publish();
  expect([old, recent].map((path) => existsSync(path))).toEqual([false, true]);
  await rm(recent, { recursive: true });
});

test('days are removed after their retention, the newest one stays, and reports are whole from the oldest one on', async () => {
  await advance(4 * DAY_MS);
  await publish();
  const days = await folder().days();
  expect(days.length).toBeGreaterThanOrEqual(2);
  expect(days.length).toBeLessThanOrEqual(3);
  expect(await holdfast.metric('holdfast_archive_days_total', { change: 'removed' })).toBeGreaterThan(0);
  const completeFromMs = async () =>
    expectStatus(await holdfast.admin('GET', '/ops/usage'), 200).complete_from_ms as number;
  expect(await completeFromMs()).toBe(Date.parse(days[0] as string));
  // The oldest one is lost.
  const away = join(root, 'away');
  renameSync(folder().publishedOf(days[0] as string), away);
  expect(await completeFromMs()).toBe(Date.parse(days[1] as string));
  renameSync(away, folder().publishedOf(days[0] as string));
  expect(readdirSync(join(root, 'published')).filter((name) => name.startsWith('.'))).toEqual([]);
});

test('a stream without rows on a day goes on where the day before has ended', async () => {
  const ends: unknown[] = [];
  await spend(2);
  for (const isQuiet of [true, false, true]) {
    await advance(DAY_MS);
    await publish();
    const last = await folder().manifest((await folder().days()).at(-1) as string);
    ends.push(last?.files.charges?.ends);
    await (isQuiet ? undefined : spend(3));
  }
  expect(ends[1]).toEqual(ends[0]);
  const { rows, gaps } = await read();
  expect([gaps, doubled(rows)]).toEqual([[], []]);
  expect(rows.slice(-2).map((row) => String(row['charged']))).toEqual(['2', '3']);
});

test('partitions that cannot be written stop no other, and follow when they can', async () => {
  const tenants = new Map<number, TestTenant>();
  while (tenants.size < 3) {
    const one = await holdfast.fundedTenant(100);
    tenants.set(partitionOfTenant(one.id, 3), one);
  }
  // In the order of the archiver's work, so that both of its lanes fail first.
  const [first, second, last] = [...holdfast.app.get(ArchiverService).leases.held.keys()] as [
    number,
    number,
    number,
  ];
  const paths = [first, second].map((partition) => folder().stagingOf('charges', partition));
  const staged = async (partition: number): Promise<number> =>
    (await folder().staged('charges', partition)).length;
  const earlier = await Promise.all([first, second, last].map(staged));
  for (const path of paths) {
    mkdirSync(path, { recursive: true });
    renameSync(path, `${path}.away`);
    writeFileSync(path, 'no folder');
  }
  const charge = async (partition: number): Promise<void> => {
    const one = tenants.get(partition) as TestTenant;
    const id = await holdfast.hold(one, 9);
    expectStatus(await holdfast.commit(one, id, 8), 200);
  };
  const failures = () => holdfast.metric('holdfast_archive_failures_total', { step: 'write' });
  const before = await failures();
  await charge(first);
  await charge(second);
  await eventually('failures', async () => (await failures()) >= before + 2);
  await charge(last);
  await eventually('the one that can be written', async () => (await staged(last)) > (earlier[2] as number));
  for (const path of paths) {
    unlinkSync(path);
    renameSync(`${path}.away`, path);
  }
  await eventually('the others', async () =>
    (await Promise.all([first, second].map(staged))).every(
      (count, index) => count > (earlier[index] as number),
    ),
  );
});

test('a folder of the archive that cannot be read is an error, not an empty one', async () => {
  const broken = await mkdtemp(join(tmpdir(), 'archive-'));
  await removeLeftBehind(new ArchiveFolder(broken), 0);
  writeFileSync(join(broken, 'published'), 'no folder');
  await expect(removeLeftBehind(new ArchiveFolder(broken), 0)).rejects.toThrow('ENOTDIR');
  await rm(broken, { recursive: true });
});
