import { expect, jest, test } from '@jest/globals';
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
import { expectStatus, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeTenants, stateOf, TAGS } from './instances.js';

const on = useGovernance();

const reconcile = () => on.holdfast.app.get(Reconciler).reconcile();

test('live reservations that are missing from the index, or misplaced in it, are put back, reported, and expire in time', async () => {
  const [one, two] = (await makeTenants(on.holdfast, 2)) as [TestTenant, TestTenant];
  const due = await makeDue(on.holdfast, on.holds, one, 2);
  const live = await on.holdfast.hold(two, 1);
  const moved = await on.holdfast.hold(two, 1);
  const settled = await on.holdfast.hold(two, 1);
  expectStatus(await on.holdfast.commit(two, settled, 1), 200);
  const [tag, tagTwo] = [on.holds.tagOfTenant(one.id), on.holds.tagOfTenant(two.id)];
  await on.holds.redis.del(ttlIndexKey(tag));
  const score = await on.holds.redis.zscore(ttlIndexKey(tagTwo), live);
  await on.holds.redis.zrem(ttlIndexKey(tagTwo), live);
  await on.holds.redis.zadd(ttlIndexKey(tagTwo), 99_999_999_999_999, moved);
  expect(await on.holdfast.app.get(ExpiryService).sweep()).toMatchObject({ judged: 0 });
  const report = await reconcile();
  expect(report).toMatchObject({ missing: 3, misplaced: 1 });
  const ttl = Number(await on.holds.redis.zscore(ttlIndexKey(tagTwo), moved));
  expect(ttl).toBeLessThan(99_999_999_999_999);
  expect(await on.holds.redis.zscore(ttlIndexKey(tagTwo), live)).toBe(score);
  expect(await on.holds.isIndexed(settled)).toBe(false);
  expect(await on.holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' })).toBe(3);
  expect(await on.holdfast.metric('holdfast_reconciled_total', { found: 'MISPLACED' })).toBe(1);
  const entries = await on.holds.redis.xrange(eventLogKey(tag), '-', '+');
  expect(
    entries.filter(
      ([, fields]) =>
        fields.includes('custom.reservation.reindexed') && due.some((id) => fields.includes(id)),
    ),
  ).toHaveLength(2);
  expect(await on.holdfast.app.get(ExpiryService).sweep()).toMatchObject({ expired: 2 });
  expect(await reconcile()).toMatchObject({ missing: 0, misplaced: 0 });
});

test('quarantined reservations stay there, and a record without a sound deadline is put there', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const [ill, lost] = (await makeDue(on.holdfast, on.holds, tenant, 2)) as [string, string];
  await on.holds.set(ill, { am: 'many' });
  await on.holdfast.app.get(ExpiryService).sweep();
  const [other] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
  await on.holds.set(other, { gr: 'long' });
  await on.holds.redis.del(ttlIndexKey(on.holds.tagOfTenant(tenant.id)));
  expect(await reconcile()).toMatchObject({ missing: 1 });
  expect(await on.holds.isIndexed(ill)).toBe(false);
  await on.holdfast.app.get(ExpiryService).sweep();
  expect((await on.holds.record(other))['qr']).toBe('INVALID_EXPIRY');
  expect(await stateOf(on.holds, lost)).toBe('EXPIRED');
});

test('thousands of reservations are examined in bounded runs, past missing and invalid records', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const tag = on.holds.tagOfTenant(tenant.id);
  const ids = await makeHolds(
    on.holds.redis,
    tag,
    tenant.id,
    Array.from({ length: 1050 }, () => ({})),
  );
  await on.holds.redis.zrem(ttlIndexKey(tag), ...ids.slice(1000));
  await on.holds.redis.del(reservationKey(tag, ids[1049] as string));
  await on.holds.redis.del(reservationKey(tag, ids[1048] as string));
  await on.holds.redis.set(reservationKey(tag, ids[1048] as string), 'damaged');
  const report = await reconcile();
  expect(report).toMatchObject({ missing: 48, misplaced: 0 });
  expect(report.examined).toBeGreaterThanOrEqual(1050);
});

test('wrong counts of live reservations are corrected and counted, and tenants near a limit are reported', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  await reconcile();
  const repaired = await on.holdfast.metric('holdfast_live_counts_repaired_total');
  for (let made = 0; made < 4; made += 1) {
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  }
  expectStatus(
    await on.holdfast.admin('PUT', `/ops/tenants/${tenant.id}/limits`, { live_reservations: 5 }),
    200,
  );
  const key = ownedKey(on.holds.tagOfTenant(tenant.id), tenant.id);
  await on.holds.redis.hset(key, 'live', 1);
  expect(await reconcile()).toMatchObject({ recounted: 1 });
  expect(await on.holds.redis.hget(key, 'live')).toBe('4');
  expect(await on.holdfast.metric('holdfast_live_counts_repaired_total')).toBe(repaired + 1);
  expect(await on.holdfast.metric('holdfast_tenants_near_limit', { limit: 'live_reservations' })).toBe(1);
  expect(await on.holdfast.metric('holdfast_tenants_near_limit', { limit: 'budgets' })).toBe(0);
  expect(await reconcile()).toMatchObject({ recounted: 0 });
  expectStatus(await on.holdfast.admin('DELETE', `/ops/tenants/${tenant.id}/limits`), 200);
  await reconcile();
  expect(await on.holdfast.metric('holdfast_tenants_near_limit', { limit: 'live_reservations' })).toBe(0);
});

test('partitions take turns, and each keeps the count of its tenant until it goes on', async () => {
  const tenants = await makeTenants(on.holdfast, 3);
  const tags = tenants.map(({ id }) => on.holds.tagOfTenant(id));
  // More than one run examines, so that the others have their turns in between.
  const counts = [450, 650, 250];
  for (const [index, { id }] of tenants.entries()) {
    const holds = Array.from({ length: counts[index] as number }, () => ({}));
    await makeHolds(on.holds.redis, tags[index] as string, id, holds);
    await on.holds.redis.hset(ownedKey(tags[index] as string, id), 'live', 1);
  }
  const script = jest.spyOn(on.holdfast.app.get(RedisService).scripts, 'call');
  expect(await reconcile()).toMatchObject({ recounted: 3 });
  const visited = script.mock.calls
    .map(([, keys]) => tags.findIndex((tag) => Object.values(keys).includes(tenantIndexKey(tag))))
    .filter((index) => index >= 0);
  script.mockRestore();
  expect(new Set(visited.slice(0, 3))).toEqual(new Set([0, 1, 2]));
  for (const [index, { id }] of tenants.entries()) {
    const key = ownedKey(tags[index] as string, id);
    expect(await on.holds.redis.hget(key, 'live')).toBe(String(counts[index]));
  }
});

test('a turn is one run of the script, and the last one of a walk counts as a run of the job', async () => {
  const job = on.holdfast.app.get(Reconciler);
  const turns: TurnReport[] = [];
  do {
    turns.push(await job.runTurn());
  } while (turns.at(-1)?.outcome === undefined);
  expect(turns.length).toBeGreaterThan(TAGS.length - 1);
  expect(turns.at(-1)).toMatchObject({ outcome: 'success' });
  expect(turns.at(-1)?.sleepMs).toBeGreaterThanOrEqual(60_000);
});

test('a partition that cannot be examined is named, and the others are examined', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const [id] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
  const tag = on.holds.tagOfTenant(tenant.id);
  const before = await on.holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' });
  await on.holds.redis.zrem(ttlIndexKey(tag), id);
  const broken = tag === '{p30}' ? '{p31}' : '{p30}';
  await on.holds.redis.rename(eventLogKey(broken), `${broken}saved`).catch(() => undefined);
  await on.holds.redis.set(eventLogKey(broken), 'damaged');
  await expect(reconcile()).rejects.toThrow(`not reconciled: partition ${broken.slice(2, 4)}`);
  expect(await on.holdfast.metric('holdfast_reconciled_total', { found: 'MISSING' })).toBe(before + 1);
  await on.holds.redis.del(eventLogKey(broken));
  expect(await reconcile()).toMatchObject({ missing: 0 });
});
