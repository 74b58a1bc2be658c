import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { reservationKey, tagOfReservationId, ttlIndexKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { letReplicasTakeOver, startCluster, startSentinel, withServer } from '../support/redis-topologies.js';
import type { Settings } from '../support/settings.js';
import { makeTenants } from './instances.js';

const instances: Holdfast[] = [];

afterEach(async () => {
  await Promise.all(instances.splice(0).map((instance) => instance.stop()));
  await stopAllRedis();
});

async function start(env: Settings): Promise<Holdfast> {
  const instance = await Holdfast.start({ HOLDFAST_ROLES: 'api,sweeper', SWEEP_INTERVAL_MS: '100', ...env });
  instances.push(instance);
  return instance;
}

/** Moves holds into the past through the instance's own connection, on any topology. */
async function end(instance: Holdfast, ids: readonly string[]): Promise<void> {
  const { client } = instance.app.get(RedisService);
  for (const id of ids) {
    const tag = tagOfReservationId(id, 64) as string;
    const [seconds] = await client.time();
    await client.hset(reservationKey(tag, id), 'ex', Number(seconds) * 1000 - 1000);
    await client.zadd(ttlIndexKey(tag), Number(seconds) * 1000 - 1000, id);
  }
}

async function makeHolds(instance: Holdfast, count: number): Promise<string[]> {
  const tenants = await makeTenants(instance, count);
  const answers = await Promise.all(
    tenants.map((tenant) => instance.reserve(tenant, 10, { grace_period_ms: 0 })),
  );
  return answers.map((answer) => expectStatus(answer, 200).reservation_id as string);
}

async function expectExpired(instance: Holdfast, ids: readonly string[]): Promise<void> {
  const { client } = instance.app.get(RedisService);
  await eventually('all expire', async () => {
    const states = await Promise.all(
      ids.map((id) => client.hget(reservationKey(tagOfReservationId(id, 64) as string, id), 'st')),
    );
    return states.every((state) => state === 'EXPIRED');
  });
}

test('a cluster is swept on all its masters, and on the replica that takes over from one', async () => {
  const setup = await startCluster();
  const sweeper = await start({ REDIS_CLUSTER_NODES: setup.addresses });
  const ids = await makeHolds(sweeper, 12);
  await end(sweeper, ids);
  await expectExpired(sweeper, ids);
  await eventually(
    'all partitions are leased',
    async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64,
  );
  const later = await makeHolds(sweeper, 12);
  const [master] = setup.masters as [RedisServer];
  await eventually('its replica has them', () =>
    withServer(master, async (redis) => {
      // Any key of the first master will do.
      await redis.set('{p02}in-step', '1');
      return (await redis.wait(1, 1000)) === 1;
    }),
  );
  await letReplicasTakeOver(setup);
  await master.kill();
  await eventually('the holds are ended', async () => end(sweeper, later).then(() => true), 30_000);
  await expectExpired(sweeper, later);
  await eventually(
    'everything is well',
    async () => (await sweeper.call('GET', '/health/ready')).status === 200,
  );
}, 90_000);

test('a master behind Sentinels is swept, and so is its successor', async () => {
  const setup = await startSentinel();
  const sweeper = await start({ REDIS_SENTINELS: setup.addresses, REDIS_MASTER_NAME: setup.masterName });
  const ids = await makeHolds(sweeper, 3);
  await end(sweeper, ids);
  await expectExpired(sweeper, ids);
  const later = await makeHolds(sweeper, 3);
  await eventually(
    'the replica has them',
    async () => Number(await sweeper.app.get(RedisService).client.call('WAIT', '1', '1000')) >= 1,
  );
  await letReplicasTakeOver(setup);
  await setup.master.kill();
  await eventually('the holds are ended', async () => end(sweeper, later).then(() => true), 30_000);
  await expectExpired(sweeper, later);
}, 90_000);

test('the embedded Redis is swept', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-test-sweep-'));
  try {
    // Setting any Redis variable keeps the test server out.
    const sweeper = await start({ DATA_DIR: dataDir, REDIS_APPENDFSYNC: 'everysec' });
    const ids = await makeHolds(sweeper, 3);
    await end(sweeper, ids);
    await expectExpired(sweeper, ids);
    await Promise.all(instances.splice(0).map((instance) => instance.stop()));
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});

test('a Redis that is full is swept by an instance that starts on it: leases, announcement, refunds and events included', async () => {
  const redis = await startRedis({ maxmemory: '100mb' });
  const maker = await Holdfast.start({ REDIS_URL: redis.url });
  instances.push(maker);
  const ids = await makeHolds(maker, 3);
  await end(maker, ids);
  const { client } = maker.app.get(RedisService);
  await client.config('SET', 'maxmemory', '1mb');
  await expect(client.set('grow', '1')).rejects.toThrow('OOM');
  const sweeper = await start({ HOLDFAST_ROLES: 'sweeper', REDIS_URL: redis.url });
  await expectExpired(maker, ids);
  await eventually(
    'they are counted',
    async () => (await sweeper.metric('cycles_reservations_expired_total')) === 3,
  );
  await eventually(
    'its leases are held',
    async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64,
  );
  await client.config('SET', 'maxmemory', '100mb');
});
