import { existsSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { ArchiveIdentity } from '../../src/archive/archive-identity.js';
import { readPlaces } from '../../src/archive/archive-places.js';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import {
  archiveIdKey,
  journalKey,
  journalPlacesKey,
  partitionOfTenant,
  RedisService,
  tagOfPartition,
  tagOfTenant,
} from '../../src/redis/index.js';
import { readArchive } from '../support/archive.js';
import { eventually } from '../support/eventually.js';
import { expectRefusal, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

/** What happens when the archive is switched on, and with folders that are not the ledger's. */

const QUICK = {
  archiveFlushMs: 0,
  archiveSettleMs: 0,
  archiveLeaseMs: 300,
  PARTITIONS: '4',
} as const;

let redis: Store;
let stored: StoredHolds;
const folders: string[] = [];

/** A ledger has one archive, so each test has a ledger of its own. */
beforeEach(async () => {
  redis = await startStore();
  stored = new StoredHolds(redis.url);
});
afterEach(async () => {
  stored.close();
  await redis.stop();
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })));
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'archive-'));
  folders.push(folder);
  return folder;
}

const start = (more: Record<Uppercase<string>, string> = {}): Promise<Holdfast> =>
  Holdfast.start({ REDIS_URL: redis.url, HOLDFAST_ROLES: 'api,janitor,archiver', ...QUICK, ...more });

/** Waits until the archive has begun: what is packed before is not in it. */
async function begin(holdfast: Holdfast): Promise<void> {
  const redis = holdfast.app.get(RedisService);
  await eventually('the archive to begin', async () => (await readPlaces(redis, 'charges')).size === 4);
}

/** @returns the folder of the archive that the ledger has from now on, with a row */
async function archived(): Promise<string> {
  const root = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: root });
  try {
    await begin(holdfast);
    await spend(holdfast, await holdfast.fundedTenant(100), 1);
    const service = holdfast.app.get(RedisService);
    await eventually('its row', async () => (await readArchive(root, service)).rows.length > 0);
  } finally {
    await holdfast.stop();
  }
  return root;
}

async function spend(holdfast: Holdfast, tenant: TestTenant, amount: number): Promise<string> {
  const id = await holdfast.hold(tenant, amount + 1);
  expectStatus(await holdfast.commit(tenant, id, amount), 200);
  return id;
}

test('what was packed before the archive began is not in it, and reports say from when they are whole', async () => {
  const before = await start();
  const tenant = await before.fundedTenant(1_000_000);
  const tag = tagOfTenant(tenant.id, 4);
  await spend(before, tenant, 5);
  await eventually('the journal to be empty', async () => (await stored.redis.xlen(journalKey(tag))) === 0);
  await before.stop();
  // Packing has not passed this one.
  const without = await start({ HOLDFAST_ROLES: 'api' });
  const expected = new Map([[await spend(without, tenant, 7), 7]]);
  await without.stop();

  const root = await newFolder();
  const beganAfterMs = Date.now();
  // Without the janitor, which could pack the entry before the archive begins.
  const holdfast = await start({ ARCHIVE_DIR: root, HOLDFAST_ROLES: 'api,archiver' });
  try {
    expected.set(await spend(holdfast, tenant, 11), 11);
    const { rows, gaps, completeFromMs } = await eventually('all rows', async () => {
      const reading = await readArchive(root, holdfast.app.get(RedisService));
      return reading.rows.length >= expected.size && reading;
    });
    expect(new Map(rows.map((row) => [row['record_id'], Number(row['charged'])]))).toEqual(expected);
    expect(gaps).toEqual([]);
    expect(completeFromMs).toBeGreaterThanOrEqual(beganAfterMs);
    const report = expectStatus(await holdfast.admin('GET', `/ops/usage?tenant_id=${tenant.id}`), 200);
    expect(report.complete_from_ms).toBe(Number(await stored.redis.hget(journalPlacesKey(tag), 'began')));
    expect(report.totals).toMatchObject([{ charged: 18 }]);
  } finally {
    await holdfast.stop();
  }
});

test('an archiver that was away for a week leaves a gap, and what is archived stays', async () => {
  const root = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: root });
  await begin(holdfast);
  const tenant = await holdfast.fundedTenant(1000);
  const partition = partitionOfTenant(tenant.id, 4);
  const places = journalPlacesKey(tagOfPartition(partition));
  const ids = [await spend(holdfast, tenant, 1)];
  const ofTenant = async (instance: Holdfast) => {
    const { rows, ...reading } = await readArchive(root, instance.app.get(RedisService));
    return {
      ...reading,
      ids: rows.filter((row) => row['tenant'] === tenant.id).map((row) => row['record_id']),
    };
  };
  const before = await eventually('the row', async () => {
    const reading = await ofTenant(holdfast);
    return reading.ids.length === ids.length && reading;
  });
  await holdfast.stop();
  await stored.redis.hset(places, 'seen', Date.now() - 8 * 86_400_000);

  const without = await start({ HOLDFAST_ROLES: 'api,janitor' });
  await spend(without, tenant, 3);
  await eventually(
    'its place to be given up',
    async () => (await stored.redis.hexists(places, 'cursor')) === 0,
  );
  await eventually('all to be packed', async () => {
    const journal = journalKey(tagOfPartition(partition));
    return (await stored.redis.xlen(journal)) === 0;
  });
  await without.stop();

  const again = await start({ ARCHIVE_DIR: root });
  try {
    await begin(again);
    ids.push(await spend(again, tenant, 4));
    const reading = await eventually('the next row', async () => {
      const found = await ofTenant(again);
      return found.ids.length === ids.length && found;
    });
    expect(reading.ids).toEqual(ids);
    expect(reading.gaps).toMatchObject([{ partition, why: 'MISSING' }]);
    expect(reading.completeFromMs).toBe(before.completeFromMs);
  } finally {
    await again.stop();
  }
});

/** What readiness says of the archiver, once it is red. */
async function refused(holdfast: Holdfast): Promise<string> {
  const { body } = await eventually('readiness to be red', async () => {
    const answer = await holdfast.call('GET', '/health/ready');
    return answer.status === 503 && answer;
  });
  expect(body.details.archiver.status).toBe('down');
  expect(holdfast.app.get(ArchiverService).leases.held.size).toBe(0);
  expect(await holdfast.metric('holdfast_archive_failures_total', { step: 'open' })).toBeGreaterThan(0);
  expect(body.details.archiver.warnings).toMatchObject([{ code: 'archive_foreign' }]);
  return body.details.archiver.warnings[0].message as string;
}

test('an instance with another folder archives nothing, and is not ready', async () => {
  await archived();
  const holdfast = await start({ ARCHIVE_DIR: await newFolder() });
  try {
    expect(await refused(holdfast)).toContain('this ledger is archived to archive arc_');
  } finally {
    await holdfast.stop();
  }
});

const identityIn = (root: string): ArchiveIdentity =>
  JSON.parse(readFileSync(join(root, 'archive.json'), 'utf8')) as ArchiveIdentity;

test('of two deployments that begin in one empty folder one archives, and the other is not ready, answers no report and writes nothing', async () => {
  const other = await startStore();
  const root = await newFolder();
  const both = await Promise.all([
    start({ ARCHIVE_DIR: root }),
    start({ ARCHIVE_DIR: root, REDIS_URL: other.url }),
  ]);
  try {
    const owner = await eventually('archive.json', () =>
      existsSync(join(root, 'archive.json')) ? identityIn(root).epochs[0]?.deployment_id : undefined,
    );
    const isOwner = (holdfast: Holdfast): boolean => holdfast.app.get(RedisService).deployment.id === owner;
    const [winner, loser] = (isOwner(both[0]) ? both : [...both].reverse()) as [Holdfast, Holdfast];
    expect(await refused(loser)).toContain(
      `${root} is the archive of deployment ${owner}, and this is deployment `,
    );
    expectRefusal(await loser.admin('GET', '/ops/usage'), 503, 'INTERNAL_ERROR');
    const tenants = [await winner.fundedTenant(100), await loser.fundedTenant(100)] as const;
    await spend(loser, tenants[1], 1);
    await begin(winner);
    const id = await spend(winner, tenants[0], 1);
    const rows = await eventually('the row', async () => {
      const reading = await readArchive(root, winner.app.get(RedisService));
      return reading.rows.length > 0 && reading.rows;
    });
    expect(rows.map((row) => row['record_id'])).toEqual([id]);
    expectStatus(await winner.call('GET', '/health/ready'), 200);
    expect(await loser.app.get(RedisService).client.get(archiveIdKey())).toBeNull();
  } finally {
    await Promise.all(both.map((holdfast) => holdfast.stop()));
    await other.stop();
  }
});

test.each([
  ['is damaged', '{"id":', 'JSON'],
  ['has another form', '{"id":"arc_1","epochs":[{}]}', 'archive.json has another form than it was stored in'],
  ['is lost', undefined, 'and no archive.json, which says whose they are'],
])('an archive whose archive.json %s is left alone, and says so', async (_, text, warning) => {
  const root = await archived();
  await stored.redis.del(archiveIdKey());
  if (text === undefined) {
    unlinkSync(join(root, 'archive.json'));
  } else {
    writeFileSync(join(root, 'archive.json'), text);
  }
  const holdfast = await start({ ARCHIVE_DIR: root });
  try {
    const said = await eventually('the warning', async () => {
      const { body } = await holdfast.call('GET', '/health/ready');
      return body.details.archiver?.warnings?.[0]?.message as string | undefined;
    });
    expect(said).toContain(warning);
    const { body } = await holdfast.admin('GET', '/ops/usage');
    expect(body.gaps).toMatchObject([
      { file: 'archive.json', why: text === undefined ? 'MISSING' : 'DAMAGED' },
    ]);
  } finally {
    await holdfast.stop();
  }
});

test('an archive of 0.7 is taken over by its ledger, and by no other', async () => {
  const root = await archived();
  const { id } = identityIn(root);
  writeFileSync(join(root, 'archive.json'), `${JSON.stringify({ id })}\n`);
  const again = await start({ ARCHIVE_DIR: root });
  try {
    const epochs = await eventually('its new form', () => identityIn(root).epochs);
    expect(epochs).toMatchObject([{ deployment_id: again.app.get(RedisService).deployment.id }]);
    const { rows, completeFromMs } = await readArchive(root, again.app.get(RedisService));
    expect(rows).toHaveLength(1);
    expect(completeFromMs).toBe(epochs[0]?.began_ms);
  } finally {
    await again.stop();
  }
  writeFileSync(join(root, 'archive.json'), `${JSON.stringify({ id: 'arc_another' })}\n`);
  const other = await start({ ARCHIVE_DIR: root });
  try {
    expect(await refused(other)).toContain('is the archive of a ledger of version 0.7');
  } finally {
    await other.stop();
  }
});

test('ARCHIVE_METADATA=false leaves metadata out', async () => {
  const root = await newFolder();
  const withoutMetadata = { ARCHIVE_METADATA: 'false' };
  const secret = 'kept-out-of-the-archive';
  const metadata = { note: secret };
  const spendAndDebit = async (holdfast: Holdfast, tenant: TestTenant): Promise<string[]> => {
    const common = {
      subject: { tenant: tenant.id },
      action: { kind: 'llm.completion', name: 'gpt' },
      metadata,
    };
    const amount = { unit: 'TOKENS', amount: 5 };
    const send = (path: string, body: object) =>
      holdfast.call('POST', path, { key: tenant.key, body: { idempotency_key: path, ...body } });
    const reserved = await send('/v1/reservations', { ...common, estimate: amount });
    const id = expectStatus(reserved, 200).reservation_id as string;
    expectStatus(await send(`/v1/reservations/${id}/commit`, { actual: amount, metadata }), 200);
    const debited = await send('/v1/events', { ...common, actual: amount });
    return [id, expectStatus(debited, 201).event_id as string];
  };
  const holdfast = await start({ ...withoutMetadata, ARCHIVE_DIR: root });
  try {
    await begin(holdfast);
    const ids = await spendAndDebit(holdfast, await holdfast.fundedTenant(1000));
    const service = holdfast.app.get(RedisService);
    const rows = await eventually('all rows', async () => {
      const reading = await readArchive(root, service);
      return reading.rows.length >= ids.length && reading.rows;
    });
    expect(rows.map((row) => row['record_id']).sort()).toEqual([...ids].sort());
    for (const row of rows) {
      expect(row).toMatchObject({ metadata: null, commit_metadata: null, charged: 5n, action_name: 'gpt' });
    }
    const others = await eventually('the rows of the other streams', async () => {
      const [events, audit] = [
        await readArchive(root, service, 'events'),
        await readArchive(root, service, 'audit'),
      ];
      return events.rows.length > 0 && audit.rows.length > 0 && [...events.rows, ...audit.rows];
    });
    expect(others.filter((row) => Object.values(row).some((cell) => String(cell).includes(secret)))).toEqual(
      [],
    );
  } finally {
    await holdfast.stop();
  }
});
