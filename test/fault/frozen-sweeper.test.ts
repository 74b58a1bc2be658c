import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { BlackholeProxy } from '../support/blackhole-proxy.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  Holdfast,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
  type TestTenant,
} from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import {
  expiredEvents,
  leasesOf,
  makeDue,
  sharesBecome,
  makeTenants,
  startSweeper,
  stateOf,
} from '../expiry/instances.js';

const LEASE_MS = 1000;
const cleanUps: (() => Promise<void> | void)[] = [];

beforeAll(buildService, 120_000);

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

test('a sweeper that was frozen in the middle of a page finds its lease expired: its remaining calls refund nothing, and it drops the partition', async () => {
  const redis = await startRedis();
  const stored = new StoredHolds(redis.url);
  cleanUps.push(() => stored.close());
  const maker = await Holdfast.start({ REDIS_URL: redis.url });
  cleanUps.push(() => maker.stop());
  const proxy = await BlackholeProxy.before(redis);
  cleanUps.push(() => proxy.close());
  const [tenant] = (await makeTenants(maker, 1)) as [TestTenant];
  const frozen = await startService({
    REDIS_URL: proxy.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY,
    HOLDFAST_ROLES: 'sweeper',
    SWEEP_INTERVAL_MS: '50',
    sweepLeaseMs: LEASE_MS,
  });
  cleanUps.push(async () => {
    frozen.child.kill('SIGKILL');
    await frozen.ended;
  });
  await sharesBecome(stored, 64);

  // Of everything that a sweeper sends, only the calls that expire holds name them.
  // It stops at once: after a second without an answer, it would give the call up.
  const inHand = proxy.cutBefore('rsv_').then(() => frozen.child.kill('SIGSTOP'));
  const ids = await makeDue(maker, stored, tenant, 10);
  await inHand;
  const other = await startSweeper({ REDIS_URL: redis.url, sweepLeaseMs: LEASE_MS });
  cleanUps.push(() => other.stop());
  await eventually('the other takes over', async () =>
    (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
  );
  await eventually('every lease', () => leasesOf(other).held.size === 64);
  expect(await sharesBecome(stored, 64)).toEqual([leasesOf(other).instance]);

  // From here on Redis logs every command. The other instance no longer has a reason to process these holds.
  await stored.redis.config('SET', 'slowlog-log-slower-than', '0', 'slowlog-max-len', '100000');
  proxy.heal();
  frozen.child.kill('SIGCONT');
  await eventually('its remaining calls arrive', async () => {
    const noted = (await stored.redis.slowlog('GET', 100_000)) as [number, number, number, string[]][];
    return noted.some(([, , , args]) => ids.some((id) => args.some((arg) => arg.includes(id))));
  });
  await sharesBecome(stored, 32, 32);
  await eventually('its view agrees', () => leasesOf(other).held.size === 32);
  expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual(ids.map(() => 1));
  expect(await maker.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
  expect(frozen.output.stdout).not.toContain('A JOB IS STUCK');
  const later = await makeDue(maker, stored, tenant, 3);
  await eventually('the sweep continues', async () =>
    (await Promise.all(later.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
  );
}, 60_000);
