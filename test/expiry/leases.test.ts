import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { PartitionDrain } from '../../src/expiry/partition-drain.js';
import { SweepPartition } from '../../src/expiry/sweep-partition.js';
import { sweepInstancesKey, sweepLeaseKey } from '../../src/redis/keyspace.js';
import { buildService, spawnService, type ServiceProcess } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, Holdfast, WEBHOOK_SECRET_ENCRYPTION_KEY } from '../support/holdfast.js';
import type { Settings } from '../support/settings.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';
import {
  announced,
  expiredEvents,
  leaseCounts,
  leasesOf,
  makeDue,
  makeTenants,
  sharesBecome,
  startSweeper,
  stateOf,
  TAGS,
} from './instances.js';

let redis: Store;
let maker: Holdfast;
let stored: StoredHolds;
let instances: Holdfast[] = [];
let processes: ServiceProcess[] = [];

beforeAll(async () => {
  buildService();
  redis = await startStore();
  maker = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
}, 120_000);

afterEach(async () => {
  await Promise.all(instances.map((instance) => instance.stop()));
  for (const { child, ended } of processes) {
    child.kill('SIGKILL');
    await ended;
  }
  instances = [];
  processes = [];
  // Leases of a killed instance would affect the next test until they lapse.
  await Promise.all(TAGS.map((tag) => stored.redis.del(sweepLeaseKey(tag))));
  await Promise.all(
    (await announced(stored)).map((instance) => stored.redis.zrem(sweepInstancesKey(), instance)),
  );
});

afterAll(async () => {
  stored.close();
  await maker.stop();
  await redis.stop();
});

async function start(env: Settings = {}): Promise<Holdfast> {
  const instance = await startSweeper({ REDIS_URL: redis.url, ...env });
  instances.push(instance);
  return instance;
}

/** A separate process, which can be killed and frozen. */
function spawnSweeper(leaseMs: number): ServiceProcess {
  const service = spawnService({
    REDIS_URL: redis.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY,
    PORT: '0',
    HOST: '127.0.0.1',
    HOLDFAST_ROLES: 'sweeper',
    SWEEP_INTERVAL_MS: '50',
    sweepLeaseMs: leaseMs,
    LOG_LEVEL: 'warn',
  });
  processes.push(service);
  return service;
}

async function expectAllExpiredOnce(ids: readonly string[]): Promise<void> {
  await eventually('all expire', async () =>
    (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
  );
  expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual(ids.map(() => 1));
}

describe('instances share the partitions', () => {
  test('alone, by two and by three, each hold is expired once by one of them, and an instance that leaves gives up its leases immediately', async () => {
    const first = await start({ sweepLeaseMs: 300_000 });
    await sharesBecome(stored, 64);
    const second = await start({ sweepLeaseMs: 300_000 });
    await sharesBecome(stored, 32, 32);
    const third = await start({ sweepLeaseMs: 300_000 });
    await sharesBecome(stored, 22, 21, 21);
    const all = [first, second, third];
    // After the next beat, each instance's view of its leases is that of Redis.
    await eventually(
      'the views agree',
      () =>
        all
          .map((one) => leasesOf(one).held.size)
          .sort()
          .join() === '21,21,22',
    );
    const tenants = await makeTenants(maker, 12);
    const ids = (await Promise.all(tenants.map((tenant) => makeDue(maker, stored, tenant, 5)))).flat();
    await expectAllExpiredOnce(ids);
    const counted = await eventually('all are counted', async () => {
      const counts = await Promise.all(all.map((one) => one.metric('cycles_reservations_expired_total')));
      return counts.reduce((sum, count) => sum + count, 0) >= 60 && counts;
    });
    expect(counted.reduce((sum, count) => sum + count, 0)).toBe(60);
    expect(counted.filter((count) => count > 0).length).toBeGreaterThan(1);
    for (const tenant of tenants) {
      expect(await maker.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    }
    // With leases of five minutes, only a release can hand them over.
    await third.stop();
    instances.splice(instances.indexOf(third), 1);
    await sharesBecome(stored, 32, 32);
    expect(await announced(stored)).toHaveLength(2);
    await eventually(
      'its view agrees',
      async () =>
        (await second.metric('holdfast_sweep_instances')) === 2 &&
        (await second.metric('holdfast_sweep_leases_held')) === 32,
    );
    await first.stop();
    await second.stop();
    instances = [];
    expect(await leaseCounts(stored)).toEqual(new Map());
    expect(await announced(stored)).toEqual([]);
  });

  test('a killed one is taken over when its leases lapse', async () => {
    const killed = spawnSweeper(1000);
    await sharesBecome(stored, 64);
    const survivor = await start({ sweepLeaseMs: 1000 });
    await sharesBecome(stored, 32, 32);
    const tenants = await makeTenants(maker, 12);
    killed.child.kill('SIGKILL');
    await killed.ended;
    expect(await sharesBecome(stored, 64)).toEqual([leasesOf(survivor).instance]);
    await expectAllExpiredOnce(
      (await Promise.all(tenants.map((tenant) => makeDue(maker, stored, tenant, 2)))).flat(),
    );
  });

  test('a frozen one is taken over; when it wakes up it acts only under its own leases, and gets a share again', async () => {
    const frozen = spawnSweeper(1000);
    await sharesBecome(stored, 64);
    const other = await start({ sweepLeaseMs: 1000 });
    await sharesBecome(stored, 32, 32);
    frozen.child.kill('SIGSTOP');
    await sharesBecome(stored, 64);
    const tenants = await makeTenants(maker, 12);
    const ids = (await Promise.all(tenants.map((tenant) => makeDue(maker, stored, tenant, 3)))).flat();
    frozen.child.kill('SIGCONT');
    await expectAllExpiredOnce(ids);
    await sharesBecome(stored, 32, 32);
    expect(frozen.output.stdout).not.toContain('A JOB IS STUCK');
    for (const tenant of tenants) {
      expect(await maker.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    }
    await eventually('its view agrees', () => leasesOf(other).held.size === 32);
  });

  test('an instance that lost its lease stops before the next page and does not change the lease', async () => {
    const [tenant] = await makeTenants(maker, 1);
    const ids = await makeDue(maker, stored, tenant as never, 3);
    const tag = stored.tagOfTenant((tenant as { id: string }).id);
    const partition = new SweepPartition(TAGS.indexOf(tag));
    await stored.redis.set(sweepLeaseKey(tag), 'another', 'PX', 60_000);
    const lost: SweepPartition[] = [];
    const report = await maker.app
      .get(PartitionDrain)
      .run([partition], { token: 'mine', goesOn: () => true, lost: (one) => lost.push(one) });
    expect(report).toEqual({ judged: 0, expired: 0, failed: 0, cut: false });
    expect(lost).toEqual([partition]);
    expect(await stored.redis.get(sweepLeaseKey(tag))).toBe('another');
    // Nor does it take a lease that has lapsed: that is left to the beat, which knows the shares.
    await stored.redis.del(sweepLeaseKey(tag));
    await maker.app
      .get(PartitionDrain)
      .run([partition], { token: 'mine', goesOn: () => true, lost: (one) => lost.push(one) });
    expect(lost).toHaveLength(2);
    expect(await stored.redis.exists(sweepLeaseKey(tag))).toBe(0);
    expect(await stateOf(stored, ids[0] as string)).toBe('ACTIVE');
  });
});
