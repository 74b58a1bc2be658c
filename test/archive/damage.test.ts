import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { queryArchive } from '../../src/cli/archive-query.js';
import { rebuildArchive } from '../../src/cli/archive-rebuild.js';
import { verifyArchive } from '../../src/cli/archive-verify.js';
import { ArchiveFolder, type StagedFile } from '../../src/archive/archive-folder.js';
import { ArchivePublisher } from '../../src/archive/archive-publisher.js';
import { readPlaces } from '../../src/archive/archive-places.js';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import { doubt } from '../../src/archive/file-faults.js';
import { DAY_MS } from '../../src/ledger/time.js';
import { RedisService } from '../../src/redis/index.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { advanceClock } from '../support/test-clock.js';

/** One changed byte in any file of an archive: it is named, and takes no more with it than its own rows. */

let redis: Store;
let holdfast: Holdfast;
let root: string;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  root = await mkdtemp(join(tmpdir(), 'damage-'));
  holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: root,
    HOLDFAST_TEST_CLOCK: 'true',
    HOLDFAST_ROLES: 'api,janitor,archiver',
    PARTITIONS: '1',
    archiveFlushMs: 0,
    archiveSettleMs: 0,
    archivePublishMs: 3_600_000,
    archiveKeepMs: 0,
  });
  await eventually('the archive to begin', () => holdfast.app.get(ArchiverService).leases.held.size === 1);
  tenant = await holdfast.fundedTenant(1_000_000);
});
afterAll(async () => {
  await holdfast.stop();
  await redis.stop();
  await rm(root, { recursive: true, force: true });
});

const folder = () => new ArchiveFolder(root);
const publish = () => holdfast.app.get(ArchivePublisher).run();
const staged = () => folder().staged('charges', 0);
const nowMs = async () => Date.parse((await holdfast.admin('GET', '/ops/test-clock')).body.now as string);

/** Charges so much, and waits until that is staged. @returns the newest file */
async function spend(amount: number): Promise<StagedFile> {
  const before = (await staged()).map(({ path }) => path);
  const id = await holdfast.hold(tenant, amount + 1);
  expectStatus(await holdfast.commit(tenant, id, amount), 200);
  await archived();
  const found = (await staged()).filter(({ path }) => !before.includes(path));
  return found.at(-1) as StagedFile;
}

async function archived(): Promise<void> {
  const now = await nowMs();
  await eventually('everything to be archived', async () => {
    const places = await Promise.all(
      (['charges', 'events', 'audit'] as const).map((kind) =>
        readPlaces(holdfast.app.get(RedisService), kind),
      ),
    );
    return places.every((place) => (place.get(0)?.throughMs ?? 0) >= now);
  });
}

/** Ends the day. @returns the day that was published */
async function endDay(): Promise<string> {
  const day = new Date(await nowMs()).toISOString().slice(0, 10);
  await advanceClock(holdfast, { by_ms: DAY_MS });
  await archived();
  await publish();
  expect(await folder().days()).toContain(day);
  return day;
}

async function usage() {
  const { body } = await holdfast.admin('GET', '/ops/usage?from=2026-01-01T00:00:00Z');
  const { totals, gaps } = body;
  return { charged: totals[0]?.charged ?? 0, gaps };
}

function change(path: string): () => void {
  const sound = readFileSync(path);
  const changed = Buffer.from(sound);
  const middle = sound.length >> 1;
  changed[middle] = (changed[middle] as number) ^ 0xff;
  writeFileSync(path, changed);
  return () => writeFileSync(path, sound);
}

/** Waits until readiness, which is known for a second, says so. */
async function warned(expected: string): Promise<void> {
  await eventually(`readiness to warn of ${expected || 'nothing'}`, async () => {
    const { body } = await holdfast.call('GET', '/health/ready');
    const warnings = (body.details.archiver.warnings ?? []) as { message: string }[];
    expect(warnings.map(({ message }) => message).join()).toEqual(
      expected === '' ? '' : expect.stringContaining(expected),
    );
    return true;
  });
}

async function verified(): Promise<string[]> {
  const said: string[] = [];
  await verifyArchive({ folder: root, print: () => undefined, warn: (text) => void said.push(text) });
  return said;
}

test('a staged file that was changed is a gap, and its day is published without it', async () => {
  await spend(5);
  const { path } = await spend(7);
  const mend = change(path);
  const file = folder().nameOf(path);
  expect(await usage()).toMatchObject({ charged: 5, gaps: [{ file, why: 'DAMAGED' }] });
  expect(await verified()).toEqual([`${file}: it is damaged: its SHA-256 is another one`]);
  await publish();
  await warned(`the archive has gaps (1), so reports are not complete: ${file} (DAMAGED)`);
  expect(await holdfast.metric('holdfast_archive_gaps')).toBe(1);
  mend();
  await publish();
  await warned('');
  expect(await holdfast.metric('holdfast_archive_gaps')).toBe(0);

  change(path);
  const day = await endDay();
  expect((await folder().manifest(day))?.files.charges).toMatchObject({
    rows: 1,
    gaps: [{ file, why: 'DAMAGED' }],
  });
  expect(await usage()).toMatchObject({ charged: 5, gaps: [{ file, why: 'DAMAGED' }] });
});

test('a staged file without a hash, as 0.7 wrote it, is a gap once a parser cannot read it', async () => {
  const before = await usage();
  await spend(11);
  const { path, from, to } = await spend(13);
  const ofBefore = join(dirname(path), `${from}_${to}.parquet`);
  renameSync(path, ofBefore);
  expect(await usage()).toMatchObject({ charged: before.charged + 24 });
  const content = readFileSync(ofBefore);
  writeFileSync(
    ofBefore,
    Buffer.concat([content.subarray(0, 4), Buffer.alloc(content.length - 12), content.subarray(-8)]),
  );
  const day = await endDay();
  expect((await folder().manifest(day))?.files.charges).toMatchObject({
    rows: 1,
    gaps: [{ file: folder().nameOf(ofBefore), why: 'DAMAGED' }],
  });
  expect((await usage()).charged).toBe(before.charged + 11);
});

test('a published file that was changed is a gap to reports, queries and verify, also in an idle night', async () => {
  const before = await usage();
  await spend(17);
  const day = await endDay();
  const path = join(folder().publishedOf(day), 'charges.parquet');
  const file = folder().nameOf(path);
  const mend = change(path);
  doubt([path]);
  expect(await usage()).toMatchObject({
    charged: before.charged,
    gaps: [
      ...before.gaps,
      { file, why: 'DAMAGED', from_ms: Date.parse(day), to_ms: Date.parse(day) + DAY_MS },
    ],
  });
  await publish();
  await warned(file);
  expect(await verified()).toContain(`${file}: it is damaged: its SHA-256 is another one`);
  const [printed, leftOut]: [string[], string[]] = [[], []];
  await queryArchive({
    folder: root,
    sql: 'SELECT sum(charged) FROM charges',
    print: (text) => void printed.push(text),
    warn: (text) => void leftOut.push(text),
  });
  expect(printed.join('').trim().split('\n').at(-1)).toBe(String(before.charged));
  expect(leftOut).toContain(`left out: ${file} (DAMAGED)`);
  mend();
  expect((await usage()).charged).toBe(before.charged + 17);
});

test.each([
  ['an empty object', () => '{}'],
  ['null', () => 'null'],
  ['a text', () => '"manifest"'],
  ['no JSON', () => '{"day"'],
  ['nothing', () => ''],
  ['files of another form', (text: string) => text.replace(/"files": \{/, '"files": 5, "was": {')],
  ['no ends', (text: string) => text.replaceAll('"ends"', '"odds"')],
  ['an end of another form', (text: string) => text.replace(/"(\d+)-\d+"/, '"$1"')],
  ['another digit', (text: string) => text.replace(/"rows": \d/, '"rows": 8')],
  ['another day', (text: string) => text.replace(/"day": "2/, '"day": "3')],
])('a manifest with %s is damage, which every tool names', async (_, damage) => {
  const day = (await folder().days()).at(-1) as string;
  const path = folder().manifestPath(day);
  const file = folder().nameOf(path);
  const sound = readFileSync(path, 'utf8');
  const before = await usage();
  const damaged = damage(sound);
  expect(damaged).not.toBe(sound);
  writeFileSync(path, damaged);
  expect((await usage()).gaps).toContainEqual(expect.objectContaining({ file, why: 'DAMAGED' }));
  expect((await verified()).filter((fault) => fault.startsWith(file))).toHaveLength(1);
  await publish();
  await warned(`${file} (DAMAGED)`);
  const said: string[] = [];
  const note = (text: string): void => void said.push(text);
  expect(await rebuildArchive({ folder: root, days: [day], print: note, warn: note })).toBe(true);
  expect(said.join()).toContain('its manifest was lost');
  await publish();
  expect(await usage()).toEqual(before);
  writeFileSync(path, sound);
});

test('nothing is published after a day whose manifest is damaged, and readiness says so', async () => {
  const day = (await folder().days()).at(-1) as string;
  const path = folder().manifestPath(day);
  const sound = readFileSync(path);
  writeFileSync(path, '{}');
  await expect(endDay()).rejects.toThrow(`published day ${day} has a damaged manifest.json`);
  await warned(`published day ${day} has a damaged manifest.json`);
  writeFileSync(path, sound);
  await publish();
  await warned('the archive has gaps');
});

test('a task that ends with its thread is counted, and the next one has another', async () => {
  const { thread } = holdfast.app.get(ArchiverService);
  const failures = () => holdfast.metric('holdfast_archive_failures_total', { step: 'thread' });
  const before = await failures();
  // It never ends.
  const task = thread.run({ kind: 'hash', path: '/dev/zero' });
  const ended = expect(task).rejects.toThrow();
  await thread['worker']?.terminate();
  await ended;
  expect(await failures()).toBe(before + 1);
  expect(await thread.run({ kind: 'hash', path: join(root, 'archive.json') })).toHaveLength(64);
});
