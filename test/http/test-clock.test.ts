import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LogJanitor } from '../../src/retention/log-janitor.js';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import {
  deliveryIndexKey,
  deliveryKey,
  dispatchLeaseKey,
  eventLogKey,
  testClockKey,
} from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { expectRefusal, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import {
  DAY_MS,
  eventsOf,
  expectSound,
  HOUR_MS,
  MINUTE_MS,
  stateOf,
  TestClock,
  timeOf,
} from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const SETTINGS = { HOLDFAST_TEST_CLOCK: 'true' };
const on = useGovernance({}, SETTINGS);
const clock = new TestClock(() => on.holdfast);
let other: Holdfast;
beforeAll(async () => {
  other = await Holdfast.start({ REDIS_URL: on.redis.url, ...SETTINGS });
});
afterAll(() => other.stop());

const state = (id: string): Promise<string> => stateOf(on.holdfast, id);
const events = (tenant: TestTenant, ...types: string[]): Promise<Json[]> =>
  eventsOf(on.holdfast, tenant, ...types);
const timesOf = (told: Json[]): string[] => told.map(({ timestamp }) => timestamp as string);
const sound = (tenant: TestTenant): Promise<void> => expectSound(on.holdfast, tenant);
const balance = async (tenant: TestTenant): Promise<string | undefined> =>
  (await on.holdfast.balances(tenant))[`tenant:${tenant.id}`];
/** The midnights after an instant. */
const midnights = (afterMs: number, days: number): string[] =>
  Array.from({ length: days }, (_, day) => timeOf((Math.floor(afterMs / DAY_MS) + 1 + day) * DAY_MS));
const daily = async (tenant: TestTenant, rule: Json = {}): Promise<void> => {
  const body = { every: 'day', time_zone: 'UTC', ...rule };
  const path = `/ops/budgets/recurrence?scope=tenant:${tenant.id}&unit=TOKENS`;
  expectStatus(await on.holdfast.admin('PUT', path, body), 200);
};

describe('an advance', () => {
  test('lets months of daily rollovers and of holds that expire pass in two calls', async () => {
    const tenant = await clock.tenant(1000);
    await daily(tenant, { rollover_policy: 'CARRY_FORWARD' });
    const beganMs = await clock.nowMs();
    const ttls = [20 * HOUR_MS, HOUR_MS, 13 * HOUR_MS, HOUR_MS];
    const holds = await Promise.all(ttls.map((ttlMs) => clock.hold(tenant, ttlMs)));
    const targetMs = beganMs + 31 * DAY_MS;
    const answer = await clock.advanceTo(targetMs);
    expect(answer).toMatchObject({ status: 'READY' });
    expect(Date.parse(answer.now as string)).toBeGreaterThanOrEqual(targetMs);
    const told = await events(tenant, 'reservation.expired', 'budget.reset_spent');
    const ends = holds.map(({ expires_at_ms: at }) => timeOf(Number(at) + 1));
    expect(timesOf(told)).toEqual([...midnights(beganMs, 31), ...ends].sort());
    expect(await balance(tenant)).toBe('32000 0 0 0');
    const path = `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=rollOverBudget&limit=100`;
    const rows = expectStatus(await on.holdfast.admin('GET', path), 200).logs as Json[];
    expect(timesOf(rows).sort()).toEqual(midnights(beganMs, 31));
    await sound(tenant);

    // Further than boundaries are planned ahead.
    await clock.advanceBy(150 * DAY_MS);
    expect(await events(tenant, 'budget.reset_spent')).toHaveLength(181);
    expect(await balance(tenant)).toBe('182000 0 0 0');
    await sound(tenant);
  });

  test('to just before the deadline of a hold leaves it alone, and one beyond expires it at its own instant', async () => {
    const tenant = await clock.tenant(10);
    const held = await clock.hold(tenant, HOUR_MS, { grace_period_ms: 5000 });
    const id = held.reservation_id as string;
    const deadlineMs = Number(held.expires_at_ms) + 5000;
    await clock.advanceTo(deadlineMs - MINUTE_MS);
    await on.holdfast.app.get(ExpiryService, { strict: false }).sweep();
    expect(await state(id)).toBe('ACTIVE');
    expect(await balance(tenant)).toBe('9 1 0 0');
    await clock.advanceTo(deadlineMs + MINUTE_MS);
    expect(await state(id)).toBe('EXPIRED');
    expectRefusal(await on.holdfast.commit(tenant, id, 1), 410, 'RESERVATION_EXPIRED');
    expect(await balance(tenant)).toBe('10 0 0 0');
    expect(timesOf(await events(tenant, 'reservation.expired'))).toEqual([timeOf(deadlineMs + 1)]);
    await sound(tenant);
  });

  test('is what extensions, commits and releases go by', async () => {
    const tenant = await clock.tenant(10);
    const held = await clock.hold(tenant, HOUR_MS);
    const id = held.reservation_id as string;
    const { reservation_id: unused } = await clock.hold(tenant, HOUR_MS);
    const expiresMs = Number(held.expires_at_ms);
    await clock.advanceTo(expiresMs - MINUTE_MS);
    const extended = await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: HOUR_MS });
    expect(Number(expectStatus(extended, 200).expires_at_ms)).toBe(expiresMs + HOUR_MS);
    expectStatus(await on.holdfast.settle(tenant, 'release', unused), 200);
    await clock.advanceTo(expiresMs + MINUTE_MS);
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
    const { end } = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect(Number(end.at_ms)).toBeGreaterThanOrEqual(expiresMs + MINUTE_MS);
    await clock.advanceBy(DAY_MS);
    expect(await events(tenant, 'reservation.expired')).toHaveLength(0);
    await sound(tenant);
  });

  test('by two instances at once, beside the sweeper and the job for idle budgets, tells everything once and at its instant', async () => {
    const tenant = await clock.tenant(1000);
    await daily(tenant);
    const holds: Json[] = [];
    for (let number = 1; number <= 60; number += 1) {
      holds.push(await clock.hold(tenant, number * MINUTE_MS));
    }
    const beganMs = await clock.nowMs();
    const jobs = [ExpiryService, BudgetRollovers].map((job) => other.app.get(job, { strict: false }));
    const targetMs = beganMs + 5 * DAY_MS;
    let isOver = false;
    const turns = jobs.map(async (job) => {
      while (!isOver) {
        const { sleepMs } = await job.runTurn({ goesOn: () => true });
        await setTimeout(Math.min(sleepMs, 20));
      }
    });
    const advances = await Promise.all([clock.advanceTo(targetMs), clock.advanceTo(targetMs, other)]);
    expect(advances.map(({ status }) => status as string)).toEqual(['READY', 'READY']);
    isOver = true;
    await Promise.all(turns);
    expect(timesOf(await events(tenant, 'reservation.expired'))).toEqual(
      holds.map(({ expires_at_ms: at }) => timeOf(Number(at) + 1)),
    );
    expect(timesOf(await events(tenant, 'budget.reset_spent'))).toEqual(midnights(beganMs, 5));
    await sound(tenant);
  });

  test('that was interrupted is continued by its repetition, and does nothing twice', async () => {
    const tenant = await clock.tenant(1000);
    const ids: string[] = [];
    for (let number = 1; number <= 20; number += 1) {
      ids.push((await clock.hold(tenant, number * MINUTE_MS)).reservation_id as string);
    }
    // The state that an instance leaves when it dies during an advance.
    const fromMs = await clock.nowMs();
    const [standsMs, targetMs] = [fromMs + 10 * MINUTE_MS, fromMs + HOUR_MS];
    await on.stored.redis.hset(testClockKey(), { stands_at: standsMs, from: fromMs, to: targetMs });
    const standing = { status: 'ADVANCING', now: timeOf(standsMs), advancing_to: timeOf(targetMs) };
    expect(await clock.read()).toMatchObject(standing);
    const early = { to: timeOf(targetMs - 1) };
    const refused = await on.holdfast.admin('POST', '/ops/test-clock/advance', early);
    expectRefusal(refused, 400, 'INVALID_REQUEST');
    expect(await clock.advanceBy(HOUR_MS)).toMatchObject({ status: 'READY' });
    expect((await clock.nowMs()) - targetMs).toBeLessThan(MINUTE_MS);
    const told = await events(tenant, 'reservation.expired');
    expect(told.map(({ data }) => data.reservation_id as string).sort()).toEqual([...ids].sort());
    await sound(tenant);
  });

  test('goes forward only, by either member, at most a year at a time', async () => {
    const advance = (body: Json) => on.holdfast.admin('POST', '/ops/test-clock/advance', body);
    const nowMs = await clock.nowMs();
    for (const body of [
      {},
      { to: timeOf(nowMs + 1), by_ms: 1 },
      { to: timeOf(nowMs - 1) },
      { to: timeOf(nowMs + 367 * DAY_MS) },
      { by_ms: 366 * DAY_MS + 1 },
      { by_ms: 0 },
      { to: 'tomorrow' },
    ]) {
      expectRefusal(await advance(body), 400, 'INVALID_REQUEST');
    }
    const targetMs = (await clock.nowMs()) + HOUR_MS;
    const first = await clock.advanceTo(targetMs);
    // The answer may have been lost.
    const again = await clock.advanceTo(targetMs);
    expect(again.status).toBe('READY');
    expect(Date.parse(again.now as string)).toBeGreaterThanOrEqual(Date.parse(first.now as string));
    expect(again.ahead_by_ms).toBe(first.ahead_by_ms);
  });

  test('leaves an audit row', async () => {
    await clock.advanceBy(MINUTE_MS);
    const path = '/v1/admin/audit/logs?operation=advanceTestClock&limit=1';
    const { logs } = expectStatus(await on.holdfast.admin('GET', path), 200);
    expect(logs).toEqual([
      expect.objectContaining({ resource_type: 'test_clock', status: 200, tenant_id: '__admin__' }),
    ]);
  });
});

describe('after an advance', () => {
  test('time goes on, and events come in its order', async () => {
    const tenant = await clock.tenant(10);
    await clock.advanceBy(DAY_MS);
    const fromMs = await clock.nowMs();
    await on.holdfast.createBudget(tenant, '/app:a', 10);
    const path = `/v1/admin/events?tenant_id=${tenant.id}&from=${timeOf(fromMs)}`;
    const { events: found } = expectStatus(await on.holdfast.admin('GET', path), 200);
    expect(found).toEqual([expect.objectContaining({ event_type: 'budget.created' })]);
    expect((await events(tenant)).at(-1)?.event_id).toBe((found as Json[])[0].event_id);
    const { ahead_by_ms: ahead, now } = await clock.read();
    const realMs = on.holdfast.app.get(RedisService, { strict: false }).clock.nowMs();
    expect(Math.abs(Date.parse(now as string) - Number(ahead) - realMs)).toBeLessThan(MINUTE_MS);
  });

  test('an expired key is refused', async () => {
    const tenant = await on.holdfast.createTenant();
    const expires = timeOf((await clock.nowMs()) + HOUR_MS);
    const key = await on.holdfast.createKey(tenant.id, { expires_at: expires });
    await clock.advanceBy(2 * HOUR_MS);
    expectRefusal(await on.holdfast.call('GET', '/v1/balances?tenant=x', { key }), 401, 'UNAUTHORIZED');
  });

  test('the logs keep what the advance has made', async () => {
    const tenant = await clock.tenant(10);
    await clock.hold(tenant, HOUR_MS);
    await clock.advanceBy(366 * DAY_MS);
    const janitor = on.holdfast.app.get(LogJanitor, { strict: false });
    await janitor.trimEvents();
    await janitor.trimAuditLog();
    expect(await events(tenant, 'reservation.expired')).toHaveLength(1);
    const path = `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=createBudget`;
    expect(expectStatus(await on.holdfast.admin('GET', path), 200).logs).toHaveLength(1);
  });

  test('deliveries from before it are still listed when later ones come', async () => {
    const tenant = await clock.tenant(10);
    const body = { url: 'https://93.184.216.34/hook', event_types: ['reservation.expired'] };
    const made = await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, body);
    const id = expectStatus(made, 201).subscription.subscription_id as string;
    const tag = on.stored.tagOf(tenant.id);
    const before = `${Date.now()}-0:${id}`;
    await on.stored.redis.hset(deliveryKey(tag, before), {
      st: 'SUCCESS',
      at: '1',
      ca: await clock.nowMs(),
      ty: 'reservation.expired',
    });
    await on.stored.redis.zadd(deliveryIndexKey(tag, id), await clock.nowMs(), before);
    await clock.advanceBy(60 * DAY_MS);
    await on.stored.redis.set(dispatchLeaseKey(tag), 'mine');
    const reply = await on.holdfast.app.get(RedisService).scripts.call(
      'queue_deliveries',
      { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
      {
        token: 'mine',
        retentionMs: 30 * DAY_MS,
        eventCount: 0,
        rest: ['9-0', id, tenant.id, 'reservation.expired', ''],
      },
    );
    expect(reply).toMatchObject({ status: 'QUEUED', forgotten: 0 });
    const rows = await on.holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries`);
    expect(expectStatus(rows, 200).deliveries).toHaveLength(2);
  });
});

describe('the store of a test clock', () => {
  test('refuses an instance without it once its time was advanced', async () => {
    await clock.advanceBy(1);
    await expect(Holdfast.start({ REDIS_URL: on.redis.url })).rejects.toThrow(
      /advanced by a test clock; set HOLDFAST_TEST_CLOCK=true/,
    );
  });
});

test('without HOLDFAST_TEST_CLOCK, there is no such path', async () => {
  const without = await Holdfast.start();
  try {
    expectRefusal(await without.admin('GET', '/ops/test-clock'), 404, 'NOT_FOUND');
    expectRefusal(await without.admin('POST', '/ops/test-clock/advance', { by_ms: 1 }), 404, 'NOT_FOUND');
  } finally {
    await without.stop();
  }
});
