import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { randomFrom } from '../../scripts/seed.mjs';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce } from '../support/exactly-once.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  HoldfastClient,
  newKey,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
  type Json,
} from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { stateOf } from '../expiry/instances.js';

const HOUR_MS = 3_600_000;
/** Far less than a step, and far more than this machine may stall. */
const SLACK_MS = 60_000;
const PRELOAD = fileURLToPath(new URL('../support/stepping-clock.mjs', import.meta.url));

const cleanUps: (() => Promise<void> | void)[] = [];

beforeAll(buildService, 120_000);

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

test('a clock of the process that jumps by an hour, on and back, changes no decision: leases, keys, replays, the sweep and readiness', async () => {
  const redis = await startRedis();
  const stored = new StoredHolds(redis.url);
  cleanUps.push(() => stored.close());
  const service = await startService({
    REDIS_URL: redis.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY,
    HOLDFAST_ROLES: 'api,sweeper',
    SWEEP_INTERVAL_MS: '50',
    SWEEP_ALERT_MS: '5000',
    NODE_OPTIONS: `--import ${PRELOAD}`,
    CLOCK_STEPS_MS: `${HOUR_MS},${-HOUR_MS},0`,
  });
  cleanUps.push(async () => {
    service.child.kill('SIGTERM');
    await service.ended;
  });
  const client = new HoldfastClient(service.url);
  const tenant = await client.createTenant();
  await client.createBudget(tenant, '', 1_000_000);
  const redisNowMs = async () => Number((await stored.redis.time())[0]) * 1000;
  // Half an hour is between the two wrong clocks.
  const halfAnHour = await client.createKey(tenant.id, {
    expires_at: new Date((await redisNowMs()) + HOUR_MS / 2).toISOString(),
  });
  const load = await JournaledLoad.make(client, randomFrom(5));
  const clients = load.run(1);

  for (const offsetMs of [HOUR_MS, -HOUR_MS, 0]) {
    const hold = async (more: Json = {}): Promise<Json> =>
      expectStatus(
        await client.reserve(tenant, 10, { ttl_ms: HOUR_MS / 2, grace_period_ms: 0, ...more }),
        200,
      );
    const [kept, committed, extended, due] = [
      await hold(),
      await hold(),
      await hold(),
      await hold({ ttl_ms: 1000 }),
    ];
    const key = newKey();
    const first = await client.reserve(tenant, 10, { idempotency_key: key });
    service.child.kill('SIGUSR2');
    await eventually('the clock jumps', () =>
      service.output.stdout.includes(`the clock is off by ${offsetMs} ms`),
    );

    const fresh = await hold();
    expect(Math.abs(fresh.expires_at_ms - HOUR_MS / 2 - (await redisNowMs()))).toBeLessThan(SLACK_MS);
    expectStatus(await client.commit(tenant, committed.reservation_id, 10), 200);
    const { expires_at_ms: until } = expectStatus(
      await client.settle(tenant, 'extend', extended.reservation_id, { extend_by_ms: 1000 }),
      200,
    );
    expect(until).toBe(extended.expires_at_ms + 1000);
    expect(expectStatus(await client.reserve(tenant, 10, { idempotency_key: key }), 200).reservation_id).toBe(
      first.body.reservation_id,
    );
    expectStatus(await client.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: halfAnHour }), 200);

    await eventually(
      'what is due expires',
      async () => (await stateOf(stored, due.reservation_id)) === 'EXPIRED',
    );
    expectRefusal(await client.commit(tenant, due.reservation_id, 10), 410, 'RESERVATION_EXPIRED');
    expect(
      Math.abs(Number((await stored.record(due.reservation_id))['fa']) - (await redisNowMs())),
    ).toBeLessThan(SLACK_MS);
    expect(
      await Promise.all([kept, extended, fresh].map(({ reservation_id: id }) => stateOf(stored, id))),
    ).toEqual(['ACTIVE', 'ACTIVE', 'ACTIVE']);
    expect((await client.call('GET', '/health/ready')).status).toBe(200);
  }

  load.stop();
  await clients;
  expect(load.acknowledged).toHaveLength(load.entries.length);
  await expectExactlyOnce(load, stored.redis);
}, 60_000);
