import { beforeEach, describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import {
  clockCleanupKey,
  clockDeadlinesKey,
  quarantineKey,
  reservationKey,
} from '../../src/redis/keyspace.js';
import { damageHold } from '../support/hold-record.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { DAY_MS, eventsOf, expectSound, HOUR_MS, stateOf, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCKS: 'true' });
const { at, msAt } = TestClock;
let clock: TestClock;
let tenant: TestTenant;
let tag: string;
let id: string;
beforeEach(async () => {
  clock = await TestClock.create(on.holdfast);
  tenant = await clock.tenant(10);
  tag = on.stored.tagOf(tenant.id);
  id = (await clock.hold(tenant, HOUR_MS)).reservation_id as string;
});

const damage = (field: string, value?: string): Promise<void> =>
  damageHold(on.stored.redis, reservationKey(tag, id), field, value);
const decide = async (action: string): Promise<Json> =>
  expectStatus(await on.holdfast.admin('POST', `/ops/quarantine/${id}/decide`, { action }), 200);

async function expectQuarantined(reason: string): Promise<void> {
  expect(await on.stored.redis.hget(quarantineKey(tag), id)).toMatch(new RegExp(`^${reason} \\d+$`));
  expect(await on.stored.redis.zcard(clockDeadlinesKey(tag, tenant.id))).toBe(0);
}

/** Damaged fields by their short name: the owner, the letters of the expiry policy, the amount. */
const DEFECTS = [
  ['tn', undefined, 'MISSING_SCOPES'],
  ['xp', 'zc', 'INVALID_EXPIRY'],
  ['am', 'many', 'INVALID_ESTIMATE'],
] as const;

describe.each(DEFECTS)('a hold of a test clock with a damaged field %s', (field, value, reason) => {
  test('is quarantined when it is due, and the advance ends', async () => {
    await damage(field, value);
    expect(await clock.advance(HOUR_MS)).toMatchObject({ status: 'READY' });
    expect(await clock.advance(DAY_MS)).toMatchObject({ status: 'READY', now: at(DAY_MS) });
    await expectQuarantined(reason);
  });

  test('is quarantined by a commit', async () => {
    await damage(field, value);
    const refused = expectRefusal(await on.holdfast.commit(tenant, id, 1), 503, 'INTERNAL_ERROR');
    expect(refused.details).toEqual({ reason: 'quarantine' });
    await expectQuarantined(reason);
    const [told] = await eventsOf(on.holdfast, tenant, 'custom.reservation.quarantined');
    expect(told).toMatchObject({ timestamp: at(0), data: { quarantined_at: at(0) } });
  });

  test('is quarantined by the sweeper if it was in no index of deadlines', async () => {
    await damage(field, value);
    await on.stored.redis.zrem(clockDeadlinesKey(tag, tenant.id), id);
    await on.holdfast.app.get(Reconciler, { strict: false }).reconcile();
    await on.holdfast.app.get(ExpiryService, { strict: false }).sweep();
    await clock.advance(DAY_MS);
    await expectQuarantined(reason);
  });
});

describe('a decision on a quarantined hold of a test clock', () => {
  beforeEach(async () => {
    await damage('am', 'many');
    await on.holdfast.commit(tenant, id, 1);
    await clock.advance(2 * HOUR_MS);
  });

  test('to try again expires it if it is due by the clock', async () => {
    await damage('am', '1');
    expect(await decide('retry')).toMatchObject({ outcome: 'EXPIRED' });
    expect(await stateOf(on.holdfast, id)).toBe('EXPIRED');
    const told = await eventsOf(
      on.holdfast,
      tenant,
      'custom.reservation.quarantine_decided',
      'reservation.expired',
    );
    expect(told.map(({ timestamp }) => timestamp as string)).toEqual([at(2 * HOUR_MS), at(2 * HOUR_MS)]);
    await expectSound(on.holdfast, tenant);
  });

  test("to try again puts it back into the clock's index if it is not due", async () => {
    await damage('am', '1');
    await damage('ex', String(msAt(3 * HOUR_MS)));
    expect(await decide('retry')).toMatchObject({ outcome: 'SKIP', detail: 'in_grace_period' });
    await clock.advance(3 * HOUR_MS + 1);
    expect(await stateOf(on.holdfast, id)).toBe('EXPIRED');
  });

  test('to release it ends it by the clock, and removes it from all indexes', async () => {
    await on.stored.redis.zadd(clockCleanupKey(tag, tenant.id), 1, id);
    await decide('release');
    const { state, end } = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect([state, Number(end.at_ms)]).toEqual(['RELEASED', msAt(2 * HOUR_MS)]);
    const [told] = await eventsOf(on.holdfast, tenant, 'custom.reservation.quarantine_decided');
    expect(told.timestamp).toBe(at(2 * HOUR_MS));
    const path = `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=decideQuarantined`;
    const { logs } = expectStatus(await on.holdfast.admin('GET', path), 200);
    expect(logs).toEqual([expect.objectContaining({ timestamp: at(2 * HOUR_MS) })]);
    expect(await on.stored.redis.zcard(clockCleanupKey(tag, tenant.id))).toBe(0);
  });

  test('by a release of an operator ends it by the clock', async () => {
    const body = { idempotency_key: 'one', reason: 'damaged' };
    expectStatus(await on.holdfast.admin('POST', `/v1/reservations/${id}/release`, body), 200);
    const { end } = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect(Number(end.at_ms)).toBe(msAt(2 * HOUR_MS));
  });
});
