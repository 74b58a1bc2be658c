import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { RedisService } from '../../src/redis/redis.service.js';
import { LOGGER, type Logger } from '../../src/telemetry/index.js';
import { eventually } from '../support/eventually.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { expiredEvents, makeDue, makeTenants, startSweeper, stateOf } from './instances.js';

let redis: RedisServer;
let maker: Holdfast;
let sweeper: Holdfast;
let stored: StoredHolds;
let tenants: TestTenant[];

beforeAll(async () => {
  redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
  maker = await Holdfast.start({ REDIS_URL: redis.url });
  sweeper = await startSweeper({ REDIS_URL: redis.url, sweepAlertMs: 1000, SWEEP_BATCH_SIZE: '10' });
  stored = new StoredHolds(redis.url);
  stored.redis.on('error', () => undefined);
  tenants = await makeTenants(maker, 4);
});

afterEach(() => {
  jest.restoreAllMocks();
});

afterAll(async () => {
  stored.close();
  await Promise.all([maker.stop(), sweeper.stop()]);
  await redis.stop();
});

const failures = () =>
  sweeper.metric('cycles_maintenance_runs_total', { job: 'reservation_expiry', outcome: 'failed' });

async function sweeps(): Promise<void> {
  const ids = await eventually('holds can be made', async () =>
    (await Promise.all(tenants.map((tenant) => makeDue(maker, stored, tenant, 3)))).flat(),
  );
  await eventually('they expire', async () =>
    (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
  );
  expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual(ids.map(() => 1));
}

async function goAway(how: 'killed' | 'silent' | 'restarted'): Promise<void> {
  const before = await failures();
  if (how === 'silent') {
    redis.pause();
  } else {
    await redis.kill();
  }
  await eventually('the sweep fails, and says so', async () => (await failures()) > before);
  if (how === 'silent') {
    redis.resume();
  } else {
    await redis.restart();
  }
}

describe('the sweep continues after Redis was unavailable', () => {
  test.each(['killed', 'silent', 'killed', 'silent'] as const)('%s, as often as it happens', async (how) => {
    await sweeps();
    await goAway(how);
    await sweeps();
    expect(await sweeper.metric('holdfast_sweep_restarts_total')).toBe(0);
  });

  test('in the middle of a page: what fails is counted, and every hold is expired once when Redis is back', async () => {
    // Of its own: a hold of the others whose answer was late may still be live.
    const [tenant] = (await makeTenants(maker, 1)) as [TestTenant];
    const warned = jest.spyOn(sweeper.app.get<Logger>(LOGGER), 'warn');
    const { scripts } = sweeper.app.get(RedisService);
    const call = scripts.call.bind(scripts);
    const before = await sweeper.metric('holdfast_expiry_outcomes_total', { outcome: 'ERROR' });
    const spy = jest.spyOn(scripts, 'call').mockImplementation(async (name, keys, args) => {
      if (name === 'expire_page') {
        spy.mockRestore();
        await redis.kill();
      }
      return call(name, keys, args);
    });
    const ids: string[] = [];
    for (let index = 0; index < 30; index += 1) {
      ids.push(await maker.hold(tenant, 10, { grace_period_ms: 0 }));
    }
    await Promise.allSettled(ids.map((id) => stored.expireIn(id, -1000)));
    await eventually(
      'the page fails',
      async () => (await sweeper.metric('holdfast_expiry_outcomes_total', { outcome: 'ERROR' })) > before,
    );
    await redis.restart();
    await eventually('the store is back', async () => (await stored.redis.ping()) === 'PONG');
    await Promise.all(
      ids.map(async (id) =>
        (await stateOf(stored, id)) === 'ACTIVE' ? stored.expireIn(id, -1000) : undefined,
      ),
    );
    await eventually('all expire', async () =>
      (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
    );
    expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual(ids.map(() => 1));
    await eventually(
      'the budget is whole',
      async () => (await maker.balances(tenant))[`tenant:${tenant.id}`] === '1000000 0 0 0',
    );
    expect(warned.mock.calls.map(([, message]) => message)).not.toContain(
      'a partition could not be swept; the others are not affected',
    );
  });
});

describe('readiness', () => {
  test('is red because of the age of the last sweep while Redis is unavailable, and green again by itself', async () => {
    const isReady = async (): Promise<boolean> => (await sweeper.call('GET', '/health/ready')).status === 200;
    // Holds of the test before may still be late.
    await eventually('everything is well before', isReady);
    await redis.kill();
    await eventually('the sweep is too old', async () => {
      const { status, body } = await sweeper.call('GET', '/health/ready');
      const shown = body.details.sweeper;
      return status === 503 && shown?.status === 'down' && shown.last_success_age_ms > 1000;
    });
    expect(await sweeper.metric('holdfast_sweep_age_seconds')).toBeGreaterThan(1);
    await redis.restart();
    await eventually('everything is well', isReady);
  });
});

describe('the beat', () => {
  test('restarts the sweep when a call never ends, and the old one does nothing more', async () => {
    const { scripts } = sweeper.app.get(RedisService);
    const call = scripts.call.bind(scripts);
    let wake: (() => void) | undefined;
    jest.spyOn(scripts, 'call').mockImplementation((name, keys, args) => {
      if (wake === undefined && name === 'lease_announce') {
        return new Promise<never>((done) => {
          wake = () => done({ status: 'ALIVE', nowMs: 1, alive: 1, place: 0 } as never);
        });
      }
      return call(name, keys, args);
    });
    await eventually('the sweep stops', () => wake !== undefined);
    await eventually(
      'it is restarted',
      async () => (await sweeper.metric('holdfast_sweep_restarts_total')) === 1,
      25_000,
    );
    await sweeps();
    const ids = await makeDue(maker, stored, tenants[0] as TestTenant, 3);
    wake?.();
    await eventually('they expire', async () =>
      (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
    );
    expect(await Promise.all(ids.map((id) => expiredEvents(stored, id)))).toEqual([1, 1, 1]);
    await sweeps();
  }, 60_000);
});
