import { SweepLeases } from '../../src/expiry/sweep-partition.js';
import {
  eventLogKey,
  reservationKey,
  sweepInstancesKey,
  sweepLeaseKey,
  tagOfPartition,
  tagOfReservationId,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { makeHolds } from '../support/bulk-holds.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import { serverTimeMs } from '../support/server-time.js';
import type { Settings } from '../support/settings.js';
import type { StoredHolds } from '../support/stored-holds.js';

export const TAGS = Array.from({ length: 64 }, (_, number) => tagOfPartition(number));

/** An instance that sweeps by itself, at short intervals. */
export function startSweeper(env: Settings): Promise<Holdfast> {
  return Holdfast.start({ HOLDFAST_ROLES: 'sweeper', SWEEP_INTERVAL_MS: '50', ...env });
}

export function leasesOf(instance: Holdfast): SweepLeases {
  return instance.app.get(SweepLeases);
}

/** The number of partitions per lease token in Redis. */
export async function leaseCounts(stored: StoredHolds): Promise<Map<string, number>> {
  const tokens = await Promise.all(TAGS.map((tag) => stored.redis.get(sweepLeaseKey(tag))));
  const counts = new Map<string, number>();
  for (const token of tokens) {
    if (token !== null) {
      counts.set(token, (counts.get(token) ?? 0) + 1);
    }
  }
  return counts;
}

/**
 * Waits until so many partitions each have an instance, the most first, and returns whose they are then. Short leases may lapse and be
 * taken again at any time on a busy machine.
 */
export function sharesBecome(stored: StoredHolds, ...sizes: number[]): Promise<string[]> {
  return eventually(`the shares are ${sizes.join(', ')}`, async () => {
    const counts = await leaseCounts(stored);
    const found = [...counts.values()].sort((a, b) => b - a);
    return JSON.stringify(found) === JSON.stringify(sizes)
      ? [...counts.keys()]
      : Promise.reject(new Error(found.join(', ')));
  });
}

export function announced(stored: StoredHolds): Promise<string[]> {
  return stored.redis.zrangebyscore(sweepInstancesKey(), '-inf', '+inf');
}

/** Tenants in different partitions as far as possible, each with a budget. */
export function makeTenants(maker: Holdfast, count: number): Promise<TestTenant[]> {
  return Promise.all(Array.from({ length: count }, () => maker.fundedTenant(1_000_000)));
}

/** Holds of 10 that have already ended. */
export async function makeDue(
  maker: Holdfast,
  stored: StoredHolds,
  tenant: TestTenant,
  count: number,
  byMs = 1000,
): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const id = await maker.hold(tenant, 10, { grace_period_ms: 0 });
    await stored.expireIn(id, -byMs);
    ids.push(id);
  }
  return ids;
}

/** The number of events that report the expiry of this hold. */
export async function expiredEvents(stored: StoredHolds, reservationId: string): Promise<number> {
  const entries = await stored.redis.xrange(
    eventLogKey(tagOfReservationId(reservationId, 64) as string),
    '-',
    '+',
  );
  return entries.filter(
    ([, fields]) => fields.includes(reservationId) && fields.includes('reservation.expired'),
  ).length;
}

export async function stateOf(stored: StoredHolds, reservationId: string): Promise<string | undefined> {
  return (await stored.record(reservationId))['st'];
}

/** Holds that ended a minute ago, all in one step, so that a sweep finds them together. */
export async function makeOverdueTogether(
  stored: StoredHolds,
  tenant: TestTenant,
  count: number,
): Promise<void> {
  const tag = stored.tagOfTenant(tenant.id);
  const holds = Array.from({ length: count }, () => ({}));
  const ids = await makeHolds(stored.redis, tag, tenant.id, holds);
  const endedAt = (await serverTimeMs(stored.redis)) - 60_000;
  const step = stored.redis.multi();
  for (const id of ids) {
    step.hset(reservationKey(tag, id), 'ex', endedAt, 'gr', 0).zadd(ttlIndexKey(tag), endedAt, id);
  }
  await step.exec();
}
