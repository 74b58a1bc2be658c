import { beforeAll, describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import {
  eventLogKey,
  quarantineKey,
  reservationKey,
  tagOfReservationId,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { eventually } from '../support/eventually.js';
import { useGovernance } from '../support/use-governance.js';

/** A separate server: a sweep covers every partition, and must not process the holds of other files. */
const on = useGovernance({}, { SWEEP_BATCH_SIZE: '50' });
let sweeper: ExpiryService;

beforeAll(() => {
  sweeper = on.holdfast.app.get(ExpiryService);
});

async function overdue(tenant: TestTenant, amount = 10, byMs = 1000): Promise<string> {
  const id = await on.holdfast.hold(tenant, amount, { grace_period_ms: 0 });
  await on.holds.expireIn(id, -byMs);
  return id;
}

async function eventsOf(reservationId: string): Promise<Record<string, string>[]> {
  const entries = await on.holds.redis.xrange(
    eventLogKey(tagOfReservationId(reservationId, 64) as string),
    '-',
    '+',
  );
  return entries
    .map(([, fields]) =>
      Object.fromEntries(
        fields.flatMap((value, index) => (index % 2 === 0 ? [[value, fields[index + 1] as string]] : [])),
      ),
    )
    .filter((event) => event['reservation_id'] === reservationId);
}

describe('a sweep', () => {
  test('expires due holds: state, refund at every scope, one event, one counter, no index entry, 30 days of record', async () => {
    shows('request id of events');
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    await on.holdfast.createBudget(tenant, '/agent:bot', 100);
    const subject = { tenant: tenant.id, agent: 'bot' };
    const id = await on.holdfast.hold(tenant, 60, { subject, grace_period_ms: 0 });
    await on.holds.expireIn(id, -2000);
    const report = await sweeper.sweep();
    expect(report).toMatchObject({ judged: 1, expired: 1, failed: 0, cut: false });
    expect(await on.holdfast.balances(tenant)).toEqual({
      [`tenant:${tenant.id}`]: '1000000 0 0 0',
      [`tenant:${tenant.id}/agent:bot`]: '100 0 0 0',
    });
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    expect(await on.holds.isIndexed(id)).toBe(false);
    const record = await on.holds.record(id);
    expect(record).toMatchObject({ st: 'EXPIRED', am: '60', eb: 'system' });
    const ttl = await on.holds.redis.pttl(reservationKey(tagOfReservationId(id, 64) as string, id));
    expect(ttl).toBeGreaterThan(29.9 * 86_400_000);
    const [event, ...more] = await eventsOf(id);
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      ty: 'reservation.expired',
      tn: tenant.id,
      ac: 'system',
      estimated_amount: '60',
      unit: 'TOKENS',
    });
    expect(event).not.toHaveProperty('rq');
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(1);
    expect(await on.holdfast.metric('holdfast_expiry_lateness_seconds_count')).toBeGreaterThanOrEqual(1);
  });

  test('does not touch a hold in its grace window, and emits no event', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const id = await on.holdfast.hold(tenant, 60, { grace_period_ms: 60_000 });
    await on.holds.expireIn(id, -1000);
    expect(await sweeper.sweep()).toMatchObject({ judged: 0 });
    expect(await eventsOf(id)).toEqual([]);
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
  });

  test('drains more than a page, every hold once, and a second sweep finds nothing', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const ids: string[] = [];
    for (let index = 0; index < 130; index += 1) {
      ids.push(await overdue(tenant));
    }
    expect(await sweeper.sweep()).toMatchObject({ judged: 130, expired: 130, failed: 0 });
    expect(await sweeper.sweep()).toMatchObject({ judged: 0 });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(130);
    const [first] = await eventsOf(ids[0] as string);
    const [last] = await eventsOf(ids[129] as string);
    expect(first?.['tr']).toBe(last?.['tr']);
  });

  test('of two instances refunds once', async () => {
    const second = await Holdfast.start({ REDIS_URL: on.redis.url });
    try {
      const tenant = await on.holdfast.fundedTenant(1_000_000);
      for (let index = 0; index < 40; index += 1) {
        await overdue(tenant);
      }
      const reports = await Promise.all([sweeper.sweep(), second.app.get(ExpiryService).sweep()]);
      expect(reports[0].expired + reports[1].expired).toBe(40);
      expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    } finally {
      await second.stop();
    }
  });

  test('removes an entry whose record is gone, and one that a client settled', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const gone = await overdue(tenant);
    const tag = tagOfReservationId(gone, 64) as string;
    await on.holds.redis.del(reservationKey(tag, gone));
    const settled = await on.holdfast.hold(tenant, 1);
    expectStatus(await on.holdfast.commit(tenant, settled, 1), 200);
    await on.holds.redis.zadd(ttlIndexKey(tag), 1, settled);
    expect(await sweeper.sweep()).toMatchObject({ judged: 2, expired: 0, failed: 0 });
    expect(await on.holds.isIndexed(gone)).toBe(false);
    expect(await on.holds.isIndexed(settled)).toBe(false);
    expect(await on.holdfast.metric('holdfast_expiry_outcomes_total', { outcome: 'NOT_FOUND' })).toBe(1);
    expect(
      await on.holdfast.metric('holdfast_expiry_outcomes_total', { outcome: 'SKIP', detail: 'COMMITTED' }),
    ).toBe(1);
  });

  test('puts a damaged record into quarantine, reports it, and continues with the others', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const damaged = await overdue(tenant, 10, 60_000);
    await on.holds.set(damaged, { am: 'many' });
    const sound = await overdue(tenant);
    expect(await sweeper.sweep()).toMatchObject({ judged: 2, expired: 1, failed: 0 });
    expect((await on.holds.record(sound))['st']).toBe('EXPIRED');
    expect(await on.holds.record(damaged)).toMatchObject({
      st: 'ACTIVE',
      am: 'many',
      qr: 'INVALID_ESTIMATE',
    });
    const tag = tagOfReservationId(damaged, 64) as string;
    expect(await on.holds.redis.hget(quarantineKey(tag), damaged)).toMatch(/^INVALID_ESTIMATE \d+$/);
    expect((await eventsOf(damaged)).map(({ ty }) => ty)).toEqual(['custom.reservation.quarantined']);
    expect(
      await on.holdfast.metric('cycles_reservations_quarantined_total', {
        tenant: tenant.id,
        reason: 'INVALID_ESTIMATE',
      }),
    ).toBe(1);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '999990 10 0 0' });
    expect(await sweeper.sweep()).toMatchObject({ judged: 0 });
  });

  test('continues with the other partitions when the index of one is damaged', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const id = await overdue(tenant);
    const own = tagOfReservationId(id, 64) as string;
    const broken = ['{p00}', '{p01}'].find((tag) => tag !== own) as string;
    await on.holds.redis.set(ttlIndexKey(broken), 'not an index');
    try {
      expect(await sweeper.sweep()).toMatchObject({ expired: 1, failed: 1 });
    } finally {
      await on.holds.redis.del(ttlIndexKey(broken));
    }
  });

  test('runs by itself in an instance that has the role, and readiness shows its age', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    const id = await overdue(tenant);
    const second = await Holdfast.start({
      REDIS_URL: on.redis.url,
      HOLDFAST_ROLES: 'sweeper',
      SWEEP_INTERVAL_MS: '50',
    });
    try {
      await eventually('the hold expires', async () => (await on.holds.record(id))['st'] === 'EXPIRED');
      const runs = () =>
        second.metric('cycles_maintenance_runs_total', { job: 'reservation_expiry', outcome: 'success' });
      await eventually('the run is counted', async () => (await runs()) > 0);
      const ready = await second.call('GET', '/health/ready');
      expect(ready.status).toBe(200);
      expect(ready.text).toContain('last_success_age_ms');
    } finally {
      await second.stop();
    }
  });
});
