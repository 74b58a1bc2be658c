import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import { RedisService } from '../../src/redis/index.js';
import {
  eventLogKey,
  ownedKey,
  reservationKey,
  tenantIndexKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import type { TurnReport } from '../../src/worker/index.js';
import { makeHolds } from '../support/bulk-holds.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';
import { makeDue, makeTenants, stateOf, TAGS } from './instances.js';

let redis: Store;
let holdfast: Holdfast;
let stored: StoredHolds;

beforeAll(async () => {
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
});
afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

const reconcile = () => holdfast.app.get(Reconciler).reconcile();

test('live reservations that are missing from the index, or misplaced in it, are put back, reported, and expire in time', async () => {
  const [one, two] = (await makeTenants(holdfast, 2)) as [TestTenant, TestTenant];
  const due = await makeDue(holdfast, stored, one, 2);
  const { reservation_id: live } = expectStatus(await holdfast.reserve(two, 1), 200);
  const { reservation_id: moved } = expectStatus(await holdfast.reserve(two, 1), 200);
  const { reservation_id: settled } = expectStatus(await holdfast.reserve(two, 1), 200);
  expectStatus(await holdfast.commit(two, settled as string, 1), 200);
  const [tag, tagTwo] = [stored.tagOfTenant(one.id), stored.tagOfTenant(two.id)];
  await stored.redis.del(ttlIndexKey(tag));
  const score = await stored.redis.zscore(ttlIndexKey(tagTwo), live as string);
  await stored.redis.zrem(ttlIndexKey(tagTwo), live as string);
  await stored.redis.zadd(ttlIndexKey(tagTwo), 99_999_999_999_999, moved as string);
  expect(await holdfast.app.get(ExpiryService).sweep()).toMatchObject({ judged: 0 });
  const report = await reconcile();
  expect(report).toMatchObject({ missing: 3, misplaced: 1 });
  const ttl = Number(await stored.redis.zscore(ttlIndexKey(tagTwo), moved as string));
  expect(ttl).toBeLessThan(99_999_999_999_999);
  expect(await stored.redis.zscore(ttlIndexKey(tagTwo), live as string)).toBe(score);
  expect(await stored.isIndexed(settled as string)).toBe(false);
  expect(await holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' })).toBe(3);
  expect(await holdfast.metric('holdfast_reconciled_total', { found: 'MISPLACED' })).toBe(1);
  const entries = await stored.redis.xrange(eventLogKey(tag), '-', '+');
  expect(
    entries.filter(
      ([, fields]) =>
        fields.includes('custom.reservation.reindexed') && due.some((id) => fields.includes(id)),
    ),
  ).toHaveLength(2);
  expect(await holdfast.app.get(ExpiryService).sweep()).toMatchObject({ expired: 2 });
  expect(await reconcile()).toMatchObject({ missing: 0, misplaced: 0 });
});

test('quarantined reservations stay there, and a record without a sound deadline is put there', async () => {
  const [tenant] = (await makeTenants(holdfast, 1)) as [TestTenant];
  const [ill, lost] = (await makeDue(holdfast, stored, tenant, 2)) as [string, string];
  await stored.set(ill, { am: 'many' });
  await holdfast.app.get(ExpiryService).sweep();
  const [other] = (await makeDue(holdfast, stored, tenant, 1)) as [string];
  await stored.set(other, { gr: 'long' });
  await stored.redis.del(ttlIndexKey(stored.tagOfTenant(tenant.id)));
  expect(await reconcile()).toMatchObject({ missing: 1 });
  expect(await stored.isIndexed(ill)).toBe(false);
  await holdfast.app.get(ExpiryService).sweep();
  expect((await stored.record(other))['qr']).toBe('INVALID_EXPIRY');
  expect(await stateOf(stored, lost)).toBe('EXPIRED');
});

test('thousands of reservations are examined in bounded runs, past missing and invalid records', async () => {
  const [tenant] = (await makeTenants(holdfast, 1)) as [TestTenant];
  const tag = stored.tagOfTenant(tenant.id);
  const ids = await makeHolds(
    stored.redis,
    tag,
    tenant.id,
    Array.from({ length: 1050 }, () => ({})),
  );
  await stored.redis.zrem(ttlIndexKey(tag), ...ids.slice(1000));
  await stored.redis.del(reservationKey(tag, ids[1049] as string));
  await stored.redis.del(reservationKey(tag, ids[1048] as string));
  await stored.redis.set(reservationKey(tag, ids[1048] as string), 'damaged');
  const report = await reconcile();
  expect(report).toMatchObject({ missing: 48, misplaced: 0 });
  expect(report.examined).toBeGreaterThanOrEqual(1050);
});

test('wrong counts of live reservations are corrected and counted, and tenants near a limit are reported', async () => {
  const [tenant] = (await makeTenants(holdfast, 1)) as [TestTenant];
  await reconcile();
  const repaired = await holdfast.metric('holdfast_live_counts_repaired_total');
  for (let made = 0; made < 4; made += 1) {
    expectStatus(await holdfast.reserve(tenant, 1), 200);
  }
  expectStatus(
    await holdfast.admin('PUT', `/ops/tenants/${tenant.id}/limits`, { live_reservations: 5 }),
    200,
  );
  const key = ownedKey(stored.tagOfTenant(tenant.id), tenant.id);
  await stored.redis.hset(key, 'live', 1);
  expect(await reconcile()).toMatchObject({ recounted: 1 });
  expect(await stored.redis.hget(key, 'live')).toBe('4');
  expect(await holdfast.metric('holdfast_live_counts_repaired_total')).toBe(repaired + 1);
  expect(await holdfast.metric('holdfast_tenants_near_limit', { limit: 'live_reservations' })).toBe(1);
  expect(await holdfast.metric('holdfast_tenants_near_limit', { limit: 'budgets' })).toBe(0);
  expect(await reconcile()).toMatchObject({ recounted: 0 });
  expectStatus(await holdfast.admin('DELETE', `/ops/tenants/${tenant.id}/limits`), 200);
  await reconcile();
  expect(await holdfast.metric('holdfast_tenants_near_limit', { limit: 'live_reservations' })).toBe(0);
});

test('partitions take turns, and each keeps the count of its tenant until it goes on', async () => {
  const tenants = await makeTenants(holdfast, 3);
  const tags = tenants.map(({ id }) => stored.tagOfTenant(id));
  // More than one run examines, so that the others have their turns in between.
  const counts = [450, 650, 250];
  for (const [index, { id }] of tenants.entries()) {
    const holds = Array.from({ length: counts[index] as number }, () => ({}));
    await makeHolds(stored.redis, tags[index] as string, id, holds);
    await stored.redis.hset(ownedKey(tags[index] as string, id), 'live', 1);
  }
  const script = jest.spyOn(holdfast.app.get(RedisService).scripts, 'call');
  expect(await reconcile()).toMatchObject({ recounted: 3 });
  const visited = script.mock.calls
    .map(([, keys]) => tags.findIndex((tag) => Object.values(keys).includes(tenantIndexKey(tag))))
    .filter((index) => index >= 0);
  script.mockRestore();
  expect(new Set(visited.slice(0, 3))).toEqual(new Set([0, 1, 2]));
  for (const [index, { id }] of tenants.entries()) {
    const key = ownedKey(tags[index] as string, id);
    expect(await stored.redis.hget(key, 'live')).toBe(String(counts[index]));
  }
});

test('a turn is one run of the script, and the last one of a walk counts as a run of the job', async () => {
  const job = holdfast.app.get(Reconciler);
  const turns: TurnReport[] = [];
  do {
    turns.push(await job.runTurn());
  } while (turns.at(-1)?.outcome === undefined);
  expect(turns.length).toBeGreaterThan(TAGS.length - 1);
  expect(turns.at(-1)).toMatchObject({ outcome: 'success' });
  expect(turns.at(-1)?.sleepMs).toBeGreaterThanOrEqual(60_000);
});

test('a partition that cannot be examined is named, and the others are examined', async () => {
  const [tenant] = (await makeTenants(holdfast, 1)) as [TestTenant];
  const [id] = (await makeDue(holdfast, stored, tenant, 1)) as [string];
  const tag = stored.tagOfTenant(tenant.id);
  const before = await holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' });
  await stored.redis.zrem(ttlIndexKey(tag), id);
  const broken = tag === '{p30}' ? '{p31}' : '{p30}';
  await stored.redis.rename(eventLogKey(broken), `${broken}saved`).catch(() => undefined);
  await stored.redis.set(eventLogKey(broken), 'damaged');
  await expect(reconcile()).rejects.toThrow(`not reconciled: partition ${broken.slice(2, 4)}`);
  expect(await holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' })).toBe(before + 1);
  await stored.redis.del(eventLogKey(broken));
  expect(await reconcile()).toMatchObject({ missing: 0 });
});
