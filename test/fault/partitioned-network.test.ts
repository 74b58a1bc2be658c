import { afterEach, describe, expect, test } from '@jest/globals';
import { randomFrom } from '../../scripts/seed.mjs';
import { BlackholeProxy, type Darkness } from '../support/blackhole-proxy.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce } from '../support/exactly-once.js';
import type { Holdfast } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import type { Settings } from '../support/settings.js';
import { StoredHolds } from '../support/stored-holds.js';
import { expectUnavailable } from '../support/unavailable.js';
import {
  expiredEvents,
  leasesOf,
  makeDue,
  makeTenants,
  sharesBecome,
  startSweeper,
  stateOf,
} from '../expiry/instances.js';

const cleanUps: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

async function behindProxy(
  env: Settings,
): Promise<{ proxy: BlackholeProxy; stored: StoredHolds; holdfast: Holdfast; url: string }> {
  const redis = await startRedis();
  const proxy = await BlackholeProxy.before(redis);
  cleanUps.push(() => proxy.close());
  const stored = new StoredHolds(redis.url);
  cleanUps.push(() => stored.close());
  const holdfast = await startSweeper({ HOLDFAST_ROLES: 'api,sweeper', REDIS_URL: proxy.url, ...env });
  cleanUps.push(() => holdfast.stop());
  return { proxy, stored, holdfast, url: redis.url };
}

describe('a network that swallows everything between Holdfast and Redis', () => {
  test.each<[string, Darkness]>([
    ['in both directions', 'both'],
    ['on the way back only', 'replies'],
  ])(
    '%s: requests get 503 in time, and each settles once when the path is repaired',
    async (_, darkness) => {
      const { proxy, stored, holdfast } = await behindProxy({});
      const load = await JournaledLoad.make(holdfast, randomFrom(1));
      const clients = load.run(8);
      await eventually('the load is running', () => load.acknowledged.length > 50);
      proxy.cut(darkness);
      await Promise.all(Array.from({ length: 5 }, () => expectUnavailable(() => load.ask())));
      expect((await holdfast.call('GET', '/health/ready')).status).toBe(503);
      expect((await holdfast.call('GET', '/health/live')).status).toBe(200);
      proxy.heal();
      await eventually(
        'it is ready',
        async () => (await holdfast.call('GET', '/health/ready')).status === 200,
      );
      load.stop();
      await clients;
      await load.settle();
      await expectExactlyOnce(load, stored.redis);
    },
    60_000,
  );

  test('leaves the sweep to the instance that still reaches Redis, and its earlier calls have no second effect', async () => {
    const { proxy, stored, holdfast, url } = await behindProxy({ sweepLeaseMs: 1000 });
    const tenants = await makeTenants(holdfast, 8);
    const other = await startSweeper({
      HOLDFAST_ROLES: 'api,sweeper',
      REDIS_URL: url,
      sweepLeaseMs: 1000,
    });
    cleanUps.push(() => other.stop());
    await sharesBecome(stored, 32, 32);
    proxy.cut('both');
    const ids = (await Promise.all(tenants.map((tenant) => makeDue(other, stored, tenant, 5)))).flat();
    await eventually('all expire', async () =>
      (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
    );
    expect(await sharesBecome(stored, 64)).toEqual([leasesOf(other).instance]);
    proxy.heal();
    await sharesBecome(stored, 32, 32);
    expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual(ids.map(() => 1));
    for (const tenant of tenants) {
      expect(await other.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    }
  });
});
