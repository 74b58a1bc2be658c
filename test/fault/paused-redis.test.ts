import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomFrom } from '../../scripts/seed.mjs';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce } from '../support/exactly-once.js';
import { type Holdfast, type TestTenant } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { BOUND_MS } from '../support/time-bound.js';
import { expectUnavailable } from '../support/unavailable.js';
import { expiredEvents, makeDue, makeTenants, startSweeper, stateOf } from '../expiry/instances.js';

/** The exact time in the promise, not adapted to the machine. */
const PAUSE_MS = 10_000;

let redis: RedisServer;
let holdfast: Holdfast;
let stored: StoredHolds;

beforeAll(async () => {
  redis = await startRedis();
  holdfast = await startSweeper({ HOLDFAST_ROLES: 'api,sweeper', REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

test('a Redis that is stuck for ten seconds under load: 503 in time throughout, then every request settles once and the sweep continues', async () => {
  const [other] = (await makeTenants(holdfast, 1)) as [TestTenant];
  const load = await JournaledLoad.make(holdfast, randomFrom(2));
  const clients = load.run(3);
  await eventually('the load is running', () => load.acknowledged.length > 50);
  // It falls due while nothing replies.
  const due = await holdfast.hold(other, 10, { ttl_ms: 2000, grace_period_ms: 0 });
  const pausedAt = performance.now();
  redis.pause();
  // The last of them gets its response while Redis is still paused.
  while (performance.now() - pausedAt < PAUSE_MS - BOUND_MS) {
    await expectUnavailable(() => load.ask());
  }
  await delay(PAUSE_MS - (performance.now() - pausedAt));
  redis.resume();
  load.stop();
  await clients;
  await eventually('it is ready', async () => (await holdfast.call('GET', '/health/ready')).status === 200);
  await load.settle();
  await eventually('what fell due meanwhile expires', async () => (await stateOf(stored, due)) === 'EXPIRED');
  expect(await expiredEvents(stored, due)).toBe(1);
  const [later] = await makeDue(holdfast, stored, other, 1);
  await eventually('the sweep continues', async () => (await stateOf(stored, later as string)) === 'EXPIRED');
  await expectExactlyOnce(load, stored.redis);
  expect(await holdfast.metric('holdfast_sweep_restarts_total')).toBe(0);
}, 60_000);
