import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import {
  archiveIdKey,
  journalKey,
  journalPlacesKey,
  partitionOfTenant,
  reservationKey,
  RedisService,
  tagOf,
  partitionCode,
} from '../../src/redis/index.js';
import { doubled, readArchive } from '../support/archive.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
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

/** @returns the folder of the archive that the ledger has from now on, with a row */
async function archived(): Promise<string> {
  const root = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: root });
  try {
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

async function debit(holdfast: Holdfast, tenant: TestTenant, amount: number): Promise<string> {
  const answer = await holdfast.call('POST', '/v1/events', {
    key: tenant.key,
    body: {
      idempotency_key: `d-${amount}`,
      subject: { tenant: tenant.id },
      action: { kind: 'tool.search', name: 'web' },
      actual: { unit: 'TOKENS', amount },
    },
  });
  return expectStatus(answer, 201).event_id as string;
}

test('what had ended before is archived once, and what ends then, too', async () => {
  const before = await start();
  const tenant = await before.fundedTenant(1_000_000);
  const tag = tagOf(partitionCode(partitionOfTenant(tenant.id, 4)));
  const expected = new Map([
    [await spend(before, tenant, 5), 5],
    [await debit(before, tenant, 3), 3],
    [await before.hold(tenant, 9), 0],
  ]);
  expectStatus(await before.settle(tenant, 'release', [...expected.keys()][2] as string), 200);
  // Packing has passed these, and the archive was off.
  await eventually('the journal to be empty', async () => (await stored.redis.xlen(journalKey(tag))) === 0);
  await before.stop();
  const without = await start({ HOLDFAST_ROLES: 'api' });
  expected.set(await spend(without, tenant, 7), 7);
  expected.set(await debit(without, tenant, 4), 4);
  await without.stop();

  const root = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: root });
  try {
    expected.set(await spend(holdfast, tenant, 11), 11);
    const service = holdfast.app.get(RedisService);
    const { rows, gaps } = await eventually('all rows', async () => {
      const reading = await readArchive(root, service);
      return reading.rows.length >= expected.size && reading;
    });
    expect(new Map(rows.map((row) => [row['record_id'], Number(row['charged'])]))).toEqual(expected);
    expect(doubled(rows)).toEqual([]);
    expect(rows).toHaveLength(expected.size);
    expect(gaps).toEqual([]);
    expect(rows.every((row) => row['tenant'] === tenant.id && row['unit'] === 'TOKENS')).toBe(true);
  } finally {
    await holdfast.stop();
  }
});

test('what is archived stays when the archiver was away for so long that Redis has forgotten its place and the records', async () => {
  const root = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: root });
  const tenant = await holdfast.fundedTenant(1000);
  const partition = partitionOfTenant(tenant.id, 4);
  const places = journalPlacesKey(tagOf(partitionCode(partition)));
  const ids = [await spend(holdfast, tenant, 1), await debit(holdfast, tenant, 2)];
  const ofTenant = async (instance: Holdfast) => {
    const { rows, gaps } = await readArchive(root, instance.app.get(RedisService));
    return { rows: rows.filter((row) => row['tenant'] === tenant.id), gaps };
  };
  const before = await eventually('both rows', async () => {
    const { rows } = await ofTenant(holdfast);
    return rows.length === ids.length && rows;
  });
  await holdfast.stop();
  await stored.redis.hset(places, 'through', Date.now() - 8 * 86_400_000);

  const without = await start({ HOLDFAST_ROLES: 'api,janitor' });
  ids.push(await spend(without, tenant, 3));
  await eventually(
    'its place to be given up',
    async () => (await stored.redis.hexists(places, 'cursor')) === 0,
  );
  await eventually('all to be packed', async () => {
    const journal = journalKey(tagOf(partitionCode(partition)));
    return (await stored.redis.xlen(journal)) === 0;
  });
  await without.stop();
  await stored.redis.del(reservationKey(tagOf(partitionCode(partition)), ids[0] as string));

  const again = await start({ ARCHIVE_DIR: root });
  try {
    const { rows, gaps } = await eventually('the row of the time without an archiver', async () => {
      const reading = await ofTenant(again);
      return reading.rows.some((row) => row['record_id'] === ids[2]) && reading;
    });
    expect(rows.map((row) => row['record_id'])).toEqual(ids);
    expect(rows.slice(0, 2)).toEqual(before);
    expect(gaps).toEqual([]);
  } finally {
    await again.stop();
  }
});

test('an instance with another folder archives nothing, and says so', async () => {
  await archived();
  const other = await newFolder();
  const holdfast = await start({ ARCHIVE_DIR: other });
  try {
    const tenant = await holdfast.fundedTenant(100);
    await spend(holdfast, tenant, 1);
    const warning = await eventually('the warning', async () => {
      const { body } = await holdfast.call('GET', '/health/ready');
      return body.details.archiver?.warning as string | undefined;
    });
    expect(warning).toContain('this ledger is archived to archive arc_');
    expect(expectStatus(await holdfast.call('GET', '/health/ready'), 200).details.archiver.status).toBe('up');
    expect(holdfast.app.get(ArchiverService).leases.held.size).toBe(0);
    expect(await holdfast.metric('holdfast_archive_failures_total', { step: 'open' })).toBeGreaterThan(0);
  } finally {
    await holdfast.stop();
  }
});

test('a folder of another ledger is left as it is, also by a ledger that has no archive yet', async () => {
  const root = await archived();
  const id = await stored.redis.get(archiveIdKey());
  await stored.redis.del(archiveIdKey());
  const holdfast = await start({ ARCHIVE_DIR: root });
  try {
    const warning = await eventually('the warning', async () => {
      const { body } = await holdfast.call('GET', '/health/ready');
      return body.details.archiver?.warning as string | undefined;
    });
    expect(warning).toContain(`is archive ${id} of another ledger`);
    expect(await stored.redis.get(archiveIdKey())).toBeNull();
  } finally {
    await holdfast.stop();
  }
});

test('ARCHIVE_METADATA=false leaves metadata out, of what had ended before, too', async () => {
  const root = await newFolder();
  const withoutMetadata = { ARCHIVE_METADATA: 'false' };
  const secret = 'kept-out-of-the-archive';
  const metadata = { note: secret };
  const spendAndDebit = async (holdfast: Holdfast, tenant: TestTenant, key: string): Promise<string[]> => {
    const common = {
      subject: { tenant: tenant.id },
      action: { kind: 'llm.completion', name: 'gpt' },
      metadata,
    };
    const amount = { unit: 'TOKENS', amount: 5 };
    const send = (path: string, body: object) =>
      holdfast.call('POST', path, { key: tenant.key, body: { idempotency_key: `${key}-${path}`, ...body } });
    const reserved = await send('/v1/reservations', { ...common, estimate: amount });
    const id = expectStatus(reserved, 200).reservation_id as string;
    expectStatus(await send(`/v1/reservations/${id}/commit`, { actual: amount, metadata }), 200);
    const debited = await send('/v1/events', { ...common, actual: amount });
    return [id, expectStatus(debited, 201).event_id as string];
  };
  const without = await start({ ...withoutMetadata, HOLDFAST_ROLES: 'api' });
  const tenant = await without.fundedTenant(1000);
  const ids = await spendAndDebit(without, tenant, 'before');
  await without.stop();
  const holdfast = await start({ ...withoutMetadata, ARCHIVE_DIR: root });
  try {
    ids.push(...(await spendAndDebit(holdfast, tenant, 'then')));
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
