import { describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import {
  eventLogKey,
  periodIndexKey,
  quarantineKey,
  reservationKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { makeHolds } from '../support/bulk-holds.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, type TestTenant } from '../support/holdfast.js';
import { endPeriodAt } from '../support/periods.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeTenants, startSweeper, stateOf } from './instances.js';

/** An obstacle for one hold must not be one for another. */

const on = useGovernance({}, { SWEEP_BATCH_SIZE: '10' });

const sweep = () => on.holdfast.app.get(ExpiryService).sweep();

describe('1,500 holds in a long grace do not starve one that is due behind them', () => {
  async function inGrace(
    scoreOf: (expiresAt: number, graceMs: number) => number,
  ): Promise<{ tag: string; ids: string[]; tenant: TestTenant }> {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const tag = on.holds.tagOfTenant(tenant.id);
    const ids = await makeHolds(
      on.holds.redis,
      tag,
      tenant.id,
      Array.from({ length: 1500 }, () => ({})),
    );
    const [seconds] = await on.holds.redis.time();
    const expiresAt = Number(seconds) * 1000 - 30_000;
    const pipeline = on.holds.redis.pipeline();
    for (const id of ids) {
      pipeline
        .hset(reservationKey(tag, id), 'ex', expiresAt, 'gr', 600_000)
        .zadd(ttlIndexKey(tag), scoreOf(expiresAt, 600_000), id);
    }
    await pipeline.exec();
    return { tag, ids, tenant };
  }

  test('since the index is in the order of reclaim deadlines, they are not examined', async () => {
    const { ids, tenant } = await inGrace((expiresAt, graceMs) => expiresAt + graceMs);
    const [due] = await makeDue(on.holdfast, on.holds, tenant, 1, 1000);
    expect(await sweep()).toMatchObject({ judged: 1, expired: 1 });
    expect(await stateOf(on.holds, due as string)).toBe('EXPIRED');
    expect(await stateOf(on.holds, ids[0] as string)).toBe('ACTIVE');
  });

  test('and if an index from elsewhere has them in the order of expiry, they are moved to their places', async () => {
    const { tag, ids, tenant } = await inGrace((expiresAt) => expiresAt);
    const [due] = await makeDue(on.holdfast, on.holds, tenant, 1, 1000);
    await eventually(
      'the due one expires',
      async () => (await sweep()).judged >= 0 && (await stateOf(on.holds, due as string)) === 'EXPIRED',
    );
    expect(await sweep()).toMatchObject({ judged: 0 });
    expect(await on.holds.redis.zcard(ttlIndexKey(tag))).toBe(1500);
    expect(await stateOf(on.holds, ids[0] as string)).toBe('ACTIVE');
  });
});

describe('candidates that cannot be judged', () => {
  test('more of them than a page holds, at its head, do not stop those behind them, and are tried again', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const tag = on.holds.tagOfTenant(tenant.id);
    const stuck = await makeDue(on.holdfast, on.holds, tenant, 25, 60_000);
    // They can neither be settled nor put into quarantine.
    await Promise.all(stuck.map((id) => on.holds.set(id, { am: 'many' })));
    await on.holds.redis.set(quarantineKey(tag), 'damaged');
    const sound = await makeDue(on.holdfast, on.holds, tenant, 15, 1000);
    const errors = () =>
      on.holdfast.metric('holdfast_expiry_outcomes_total', { source: 'sweep', outcome: 'ERROR' });
    const before = await errors();
    expect(await sweep()).toMatchObject({ judged: 40, expired: 15, failed: 25, cut: false });
    expect((await errors()) - before).toBe(25);
    expect(await Promise.all(sound.map((id) => stateOf(on.holds, id)))).toEqual(sound.map(() => 'EXPIRED'));
    await on.holds.redis.del(quarantineKey(tag));
    expect(await sweep()).toMatchObject({ judged: 25, failed: 0 });
    expect(await on.holds.redis.hlen(quarantineKey(tag))).toBe(25);
  });
});

describe('an instance with a partition that it cannot sweep', () => {
  test('sweeps the others, turns readiness red because of its lateness, and recovers when it is repaired', async () => {
    const [ill, well] = (await makeTenants(on.holdfast, 2)) as [TestTenant, TestTenant];
    const tag = on.holds.tagOfTenant(ill.id);
    const [stuck] = (await makeDue(on.holdfast, on.holds, ill, 1)) as [string];
    await on.holds.redis.rename(eventLogKey(tag), `${tag}saved`).catch(() => undefined);
    await on.holds.redis.set(eventLogKey(tag), 'damaged');
    const sweeper = await startSweeper({ REDIS_URL: on.redis.url, sweepAlertMs: 1000 });
    try {
      if (on.holds.tagOfTenant(well.id) !== tag) {
        const [due] = (await makeDue(on.holdfast, on.holds, well, 1)) as [string];
        await eventually(
          'the other partition is swept',
          async () => (await stateOf(on.holds, due)) === 'EXPIRED',
        );
      }
      const state = await eventually('only that one is too late', async () => {
        const { status, body } = await sweeper.call('GET', '/health/ready');
        return status === 503 && body.details.sweeper.backlog === 1 && body.details.sweeper;
      });
      expect(state).toMatchObject({ status: 'down', backlog: 1, limit_ms: 1000, partitions: 64 });
      await eventually(
        'the lateness shows it',
        async () => (await sweeper.call('GET', '/health/ready')).body.details.sweeper.lateness_ms > 1000,
      );
      expect(await sweeper.metric('holdfast_sweep_backlog')).toBe(1);
      expect(await sweeper.metric('holdfast_sweep_oldest_due_seconds')).toBeGreaterThan(1);
      expect(await stateOf(on.holds, stuck)).toBe('ACTIVE');
      await on.holds.redis.del(eventLogKey(tag));
      await eventually('it expires', async () => (await stateOf(on.holds, stuck)) === 'EXPIRED');
      await eventually(
        'everything is well',
        async () => (await sweeper.call('GET', '/health/ready')).status === 200,
      );
    } finally {
      await sweeper.stop();
    }
  });

  test('shares the others when no instance can lease it', async () => {
    const broken = '{p07}';
    await on.holds.redis.rename(ttlIndexKey(broken), `${broken}saved`).catch(() => undefined);
    await on.holds.redis.set(ttlIndexKey(broken), 'damaged');
    const sweeper = await startSweeper({ REDIS_URL: on.redis.url });
    try {
      await eventually(
        'the others are held',
        async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 63,
      );
      await on.holds.redis.del(ttlIndexKey(broken));
      await eventually(
        'all are held',
        async () => (await sweeper.metric('holdfast_sweep_leases_held')) === 64,
      );
    } finally {
      await sweeper.stop();
    }
  });
});

test('a damaged index of periods fails the turn of its job, but budgets of other partitions still roll over', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const tag = on.holds.tagOfTenant(tenant.id);
  const broken = [...Array(64).keys()]
    .map((partition) => `{p${partition.toString(16).padStart(2, '0')}}`)
    .filter((other) => other !== tag)
    .map(periodIndexKey);
  await Promise.all(broken.map((key) => on.holds.redis.set(key, 'damaged')));
  const period = { period_end: new Date(Date.now() + 3_600_000).toISOString() };
  const path = `/ops/budgets/period?scope=tenant:${tenant.id}&unit=TOKENS`;
  expectStatus(await on.holdfast.admin('PATCH', path, period), 200);
  await endPeriodAt(on.holds.redis, tenant.id, Date.now());
  const events = `/v1/admin/events?tenant_id=${tenant.id}&event_type=budget.reset_spent`;
  const failures: unknown[] = [];
  await eventually('the budget rolls over', async () => {
    const turn = on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
    await turn.catch((error: unknown) => failures.push(error));
    return failures.length > 0 && (await on.holdfast.admin('GET', events)).body.events.length === 1;
  });
  const { message, cause } = failures[0] as Error;
  expect(message).toMatch(/^not rolled over: partition \w\w, .* and 53 more$/);
  expect(String(cause)).toMatch(/WRONGTYPE/);
  await Promise.all(broken.map((key) => on.holds.redis.del(key)));
});
