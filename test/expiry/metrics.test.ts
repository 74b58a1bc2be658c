import { afterEach, expect, jest, test } from '@jest/globals';
import { TURN_BUDGET_MS } from '../../src/expiry/expiry.service.js';
import { RedisService } from '../../src/redis/index.js';
import { reservationKey, sweepLeaseKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeOverdueTogether, makeTenants, startSweeper } from './instances.js';

/** Holds of a page, of which a sweep judges fewer at once. */
const PAGE = 1000;

const on = useGovernance();

afterEach(() => {
  jest.restoreAllMocks();
});

test('a real sweep changes every counter of the sweeper by what it did', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const tag = on.holds.tagOfTenant(tenant.id);
  await makeDue(on.holdfast, on.holds, tenant, 4);
  const [gone] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
  await on.holds.redis.del(reservationKey(tag, gone));
  const [damaged] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
  await on.holds.set(damaged, { am: 'many' });
  const settled = await on.holdfast.hold(tenant, 1);
  expectStatus(await on.holdfast.commit(tenant, settled, 1), 200);
  await on.holds.redis.zadd(ttlIndexKey(tag), 1, settled);
  const inGrace = await on.holdfast.hold(tenant, 1, { grace_period_ms: 60_000 });
  await on.holds.expireIn(inGrace, -1);
  await on.holds.redis.zadd(ttlIndexKey(tag), 1, inGrace);

  const sweeper = await startSweeper({ REDIS_URL: on.redis.url });
  const outcome = (name: string, detail = 'none') =>
    sweeper.metric('holdfast_expiry_outcomes_total', { source: 'sweep', outcome: name, detail });
  try {
    await eventually('all are processed', async () => (await outcome('EXPIRED')) === 4);
    expect(await outcome('NOT_FOUND')).toBe(1);
    expect(await outcome('SKIP', 'COMMITTED')).toBe(1);
    expect(await outcome('SKIP', 'in_grace_period')).toBe(1);
    expect(await outcome('QUARANTINED', 'INVALID_ESTIMATE')).toBe(1);
    expect(await sweeper.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(4);
    expect(
      await sweeper.metric('cycles_reservations_quarantined_total', {
        tenant: tenant.id,
        reason: 'INVALID_ESTIMATE',
      }),
    ).toBe(1);
    expect(await sweeper.metric('holdfast_expiry_lateness_seconds_count')).toBe(4);
    expect(await sweeper.metric('holdfast_expiry_lateness_seconds_sum')).toBeGreaterThanOrEqual(4);
    expect(await sweeper.metric('holdfast_sweep_pages_total')).toBeGreaterThanOrEqual(1);
    expect(await sweeper.metric('holdfast_sweep_lease_changes_total', { change: 'taken' })).toBe(64);
    await eventually(
      'the tick is counted',
      async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64,
    );
    expect(await sweeper.metric('holdfast_sweep_instances')).toBe(1);
    await eventually(
      'the figures follow',
      async () => (await sweeper.metric('holdfast_quarantine_entries')) === 1,
    );
    expect(await sweeper.metric('holdfast_sweep_backlog')).toBe(0);
    expect(await sweeper.metric('holdfast_sweep_oldest_due_seconds')).toBe(0);
    const runs = { job: 'reservation_expiry', outcome: 'success' };
    const counted = await sweeper.metric('cycles_maintenance_runs_total', runs);
    expect(counted).toBeGreaterThanOrEqual(1);
    expect(await sweeper.metric('cycles_maintenance_duration_seconds_count', runs)).toBeGreaterThanOrEqual(
      counted,
    );
    const [seconds] = await on.holds.redis.time();
    expect(
      Math.abs((await sweeper.metric('holdfast_sweep_last_success_timestamp_seconds')) - Number(seconds)),
    ).toBeLessThan(60);
    expect(await sweeper.metric('holdfast_sweep_age_seconds')).toBeLessThan(60);
    expect(await sweeper.metric('holdfast_sweep_restarts_total')).toBe(0);
  } finally {
    await sweeper.stop();
  }
});

test('a lease that another took is counted as lost', async () => {
  const sweeper = await startSweeper({ REDIS_URL: on.redis.url });
  try {
    await eventually('all are held', async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64);
    await on.holds.redis.set(sweepLeaseKey('{p2a}'), 'another', 'PX', 60_000);
    await eventually(
      'one is lost',
      async () => (await sweeper.metric('holdfast_sweep_lease_changes_total', { change: 'lost' })) === 1,
    );
    await eventually(
      'the run is counted',
      async () =>
        (await sweeper.metric('cycles_maintenance_runs_total', {
          job: 'reservation_expiry',
          outcome: 'lease_lost',
        })) === 1,
    );
    await eventually(
      'the others stay',
      async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 63,
    );
    await on.holds.redis.del(sweepLeaseKey('{p2a}'));
    await eventually(
      'it comes back',
      async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64,
    );
  } finally {
    await sweeper.stop();
  }
});

test('a sweep that runs out of time is counted as cut, and the next one continues immediately', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const sweeper = await startSweeper({ REDIS_URL: on.redis.url });
  try {
    const { scripts } = sweeper.app.get(RedisService);
    const call = scripts.call.bind(scripts);
    // The first batches are answered when the time of their turn is up.
    let upAt: number | undefined;
    jest.spyOn(scripts, 'call').mockImplementation(async (name, ...rest) => {
      const reply = await call(name, ...rest);
      if (name === 'expire_page') {
        upAt ??= performance.now() + TURN_BUDGET_MS;
        while (performance.now() <= upAt) {
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
      return reply;
    });
    await makeOverdueTogether(on.holds, tenant, PAGE);
    await eventually(
      'all expire',
      async () => (await sweeper.metric('cycles_reservations_expired_total')) === PAGE,
    );
    expect(await sweeper.metric('holdfast_sweep_cut_total')).toBeGreaterThan(0);
  } finally {
    await sweeper.stop();
  }
});
