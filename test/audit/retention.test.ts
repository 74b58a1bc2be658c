import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import {
  journalKey,
  partitionOfTenant,
  reservationIndexKey,
  reservationKey,
  runIndexKey,
  tagOf,
  tenantIndexKey,
} from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { appendEnd } from '../support/journal.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

let redis: Store;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
  // Some partitions precede the tenant's own.
  do {
    tenant = await holdfast.createTenant();
  } while (partitionOfTenant(tenant.id, 64) < 2);
  await holdfast.createBudget(tenant, '', 1_000_000);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

async function released(): Promise<string> {
  const id = expectStatus(await holdfast.reserve(tenant, 1), 200).reservation_id as string;
  expectStatus(await holdfast.settle(tenant, 'release', id), 200);
  return id;
}

test('index entries are removed after their records, bounded, counted, and from where the previous run was cut', async () => {
  const ids = [await released(), await released(), await released()];
  const [tag, index] = [
    stored.tagOfTenant(tenant.id),
    reservationIndexKey(stored.tagOfTenant(tenant.id), tenant.id),
  ];
  await stored.redis.del(...ids.slice(0, 2).map((id) => reservationKey(tag, id)));
  const janitor = holdfast.app.get(RecordJanitor);
  await janitor.trim(0);
  expect(await stored.redis.zcard(index)).toBe(3);
  expect(await holdfast.metric('holdfast_maintenance_cut_total', { job: 'audit_retention' })).toBe(1);
  await janitor.trim(Infinity);
  expect(await stored.redis.zrange(index, 0, '-1')).toEqual([ids[2]]);
  expect(await holdfast.metric('holdfast_index_entries_trimmed_total')).toBe(2);
  expect(await holdfast.metric('holdfast_index_entries_examined_total')).toBe(3);
});

test('a damaged index is not touched, all others are trimmed, and runs fail and name it until it is gone', async () => {
  const tag = stored.tagOfTenant(tenant.id);
  const index = reservationIndexKey(tag, tenant.id);
  await stored.redis.del(reservationKey(tag, await released()));
  const length = await stored.redis.zcard(index);
  // They precede the tenant in the index of tenants.
  await stored.redis.zadd(tenantIndexKey(tag), -2, 'first', -1, 'second');
  const damaged = [reservationIndexKey(tag, 'first'), runIndexKey(tag, 'second')];
  await Promise.all(damaged.map((key) => stored.redis.set(key, 'damaged')));
  const janitor = holdfast.app.get(RecordJanitor);
  const message = 'not trimmed: tenant first, tenant second';
  // A run that is cut after them fails, too, and so does one that is cut before them in the next pass.
  let failure: unknown;
  for (let runs = 0; failure === undefined && runs < 200; runs += 1) {
    let visits = 1;
    failure = await janitor
      .trim(Infinity, { goesOn: () => (visits -= 1) >= 0 })
      .catch((error: unknown) => error);
  }
  expect(failure).toMatchObject({ message });
  expect(await stored.redis.zcard(index)).toBe(length - 1);
  await expect(janitor.trim(Infinity)).rejects.toThrow(message);
  await expect(janitor.trim(-1)).rejects.toThrow(message);
  expect(await stored.redis.mget(damaged)).toEqual(['damaged', 'damaged']);
  await stored.redis.del(damaged);
  await janitor.trim(Infinity);
  await stored.redis.zrem(tenantIndexKey(tag), 'first', 'second');
});

test('a damaged index of tenants does not stop the trimming of other partitions', async () => {
  const tag = stored.tagOfTenant(tenant.id);
  const index = reservationIndexKey(tag, tenant.id);
  await stored.redis.del(reservationKey(tag, await released()));
  const length = await stored.redis.zcard(index);
  const keys = ['00', '01'].map((code) => tenantIndexKey(tagOf(code)));
  await Promise.all(keys.map((key) => stored.redis.set(key, 'damaged')));
  const janitor = holdfast.app.get(RecordJanitor);
  await expect(janitor.trim(Infinity)).rejects.toMatchObject({
    message: 'not trimmed: partition 00, partition 01',
    cause: expect.objectContaining({ message: expect.stringContaining('WRONGTYPE') }),
  });
  expect(await stored.redis.zcard(index)).toBe(length - 1);
  await Promise.all(keys.map((key) => stored.redis.del(key)));
  await janitor.trim(Infinity);
});

test('a partition with endless work does not keep others from being packed', async () => {
  const janitor = holdfast.app.get(RecordJanitor);
  await janitor.pack(Infinity);
  const [busy, quiet] = [tagOf('00'), tagOf('03')];
  const unknown = (count: number): string[] => Array.from({ length: count }, (_, index) => `rsv_00${index}`);
  await appendEnd(stored.redis, quiet, ...unknown(100));
  // Between two runs, more comes to the busy partition than a run can pack.
  for (let run = 0; run < 4; run += 1) {
    await appendEnd(stored.redis, busy, ...unknown(2000));
    let left = 33;
    await janitor.pack(Infinity, { goesOn: () => (left -= 1) >= 0 });
  }
  expect(await stored.redis.xlen(journalKey(quiet))).toBe(0);
  expect(await stored.redis.xlen(journalKey(busy))).toBeGreaterThan(0);
  await janitor.pack(Infinity);
  expect(await stored.redis.xlen(journalKey(busy))).toBe(0);
});

test('an error names a few of many damaged indexes', async () => {
  const tag = stored.tagOfTenant(tenant.id);
  const names = Array.from({ length: 12 }, (_, number) => `many-${String(number).padStart(2, '0')}`);
  const keys = names.map((name) => reservationIndexKey(tag, name));
  await Promise.all(names.map((name) => stored.redis.zadd(tenantIndexKey(tag), 1, name)));
  await Promise.all(keys.map((key) => stored.redis.set(key, 'damaged')));
  const janitor = holdfast.app.get(RecordJanitor);
  await expect(janitor.trim(Infinity)).rejects.toThrow('tenant many-09 and 2 more');
  await stored.redis.del(keys);
  await stored.redis.zrem(tenantIndexKey(tag), ...names);
  await janitor.trim(Infinity);
});

test('records are packed after their end, and a run without time leaves them for the next', async () => {
  const id = await released();
  const tag = stored.tagOfTenant(tenant.id);
  const janitor = holdfast.app.get(RecordJanitor);
  await stored.redis.del(reservationKey(tag, await released()));
  const unpacked = await holdfast.metric('holdfast_records_not_packed_total');
  const entries = (await holdfast.metric('holdfast_journal_entries_total')) ?? 0;
  await janitor.pack(-1);
  expect(await holdfast.metric('holdfast_records_to_pack')).toBe(await stored.redis.xlen(journalKey(tag)));
  expect(await stored.redis.hexists(reservationKey(tag, id), '0')).toBe(0);
  await janitor.pack(Infinity);
  expect(await stored.redis.hexists(reservationKey(tag, id), '0')).toBe(1);
  expect(await stored.redis.xlen(journalKey(tag))).toBe(0);
  expect(await holdfast.metric('holdfast_journal_entries_total')).toBeGreaterThan(entries);
  expect(await holdfast.metric('holdfast_records_packed_total')).toBeGreaterThanOrEqual(1);
  expect(await holdfast.metric('holdfast_records_not_packed_total')).toBeGreaterThan(unpacked);
});

test('an instance with the role does both by itself until it stops', async () => {
  const working = await Holdfast.start({ REDIS_URL: redis.url, HOLDFAST_ROLES: 'janitor' });
  try {
    const id = await released();
    await eventually(
      'the record is packed',
      async () => (await stored.redis.hexists(reservationKey(stored.tagOfTenant(tenant.id), id), '0')) === 1,
    );
    expect(
      await working.metric('cycles_maintenance_runs_total', { job: 'record_packing', outcome: 'success' }),
    ).toBeGreaterThanOrEqual(1);
  } finally {
    await working.stop();
  }
});
