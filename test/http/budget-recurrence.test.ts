import { describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import {
  boundariesAfter,
  parseRecurrence,
  type Recurrence,
  recurrenceText,
} from '../../src/governance/budgets/recurrence.js';
import { periodPlansKey, tagOfTenant } from '../../src/redis/keyspace.js';
import { isTimeZone } from '../../src/governance/budgets/time-zone.js';
import { eventually } from '../support/eventually.js';
import { type Answer, expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { endPeriodAt } from '../support/periods.js';
import { eventsOf } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const rule = (
  every: Recurrence['every'],
  timeZone: string,
  anchorDay = 1,
  anchorMonth = 1,
  { anchorHour = 0, lengthHours = 1 } = {},
): Recurrence => ({ every, timeZone, anchorDay, anchorMonth, anchorHour, lengthHours });
const hours = (timeZone: string, lengthHours: number): Recurrence =>
  rule('hour', timeZone, 1, 1, { lengthHours });
const daysFrom = (timeZone: string, anchorHour: number): Recurrence =>
  rule('day', timeZone, 1, 1, { anchorHour });

describe('the boundaries of a recurrence', () => {
  test.each<[string, Recurrence, string, string[]]>([
    [
      'days across the change to daylight saving time',
      rule('day', 'Europe/Berlin'),
      '2026-03-28T12:00:00Z',
      ['2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z', '2026-03-30T22:00:00Z'],
    ],
    [
      'days across the change back to standard time',
      rule('day', 'America/New_York'),
      '2026-10-31T12:00:00Z',
      ['2026-11-01T04:00:00Z', '2026-11-02T05:00:00Z', '2026-11-03T05:00:00Z'],
    ],
    [
      'a day whose midnight the clocks skip',
      rule('day', 'Africa/Cairo'),
      '2026-04-22T23:00:00Z',
      ['2026-04-23T22:00:00Z', '2026-04-24T21:00:00Z'],
    ],
    [
      'a midnight that occurs twice',
      rule('day', 'America/Havana'),
      '2026-10-31T12:00:00Z',
      ['2026-11-01T04:00:00Z', '2026-11-02T05:00:00Z'],
    ],
    [
      'a day that a time zone skipped',
      rule('day', 'Pacific/Apia'),
      '2011-12-29T11:00:00Z',
      ['2011-12-30T10:00:00Z', '2011-12-31T10:00:00Z'],
    ],
    [
      'weeks from Monday, at a half-hour offset',
      rule('week', 'Asia/Kolkata'),
      '2026-11-20T00:00:00Z',
      ['2026-11-22T18:30:00Z', '2026-11-29T18:30:00Z'],
    ],
    [
      'weeks from Sunday',
      rule('week', 'UTC', 7),
      '2026-11-22T00:00:00Z',
      ['2026-11-29T00:00:00Z', '2026-12-06T00:00:00Z'],
    ],
    [
      'months from the 31st, where shorter months begin on their last day',
      rule('month', 'UTC', 31),
      '2027-12-31T00:00:00Z',
      ['2028-01-31T00:00:00Z', '2028-02-29T00:00:00Z', '2028-03-31T00:00:00Z', '2028-04-30T00:00:00Z'],
    ],
    [
      'quarters that begin in February',
      rule('quarter', 'Asia/Tokyo', 1, 2),
      '2026-01-15T00:00:00Z',
      ['2026-01-31T15:00:00Z', '2026-04-30T15:00:00Z', '2026-07-31T15:00:00Z'],
    ],
    [
      'years that begin on 29 February',
      rule('year', 'UTC', 29, 2),
      '2026-06-01T00:00:00Z',
      ['2027-02-28T00:00:00Z', '2028-02-29T00:00:00Z'],
    ],
    [
      'hours on the day when the clocks go forward: the window with the change is an hour shorter',
      hours('Europe/Berlin', 6),
      '2026-03-28T23:00:00Z',
      ['2026-03-29T04:00:00Z', '2026-03-29T10:00:00Z', '2026-03-29T16:00:00Z', '2026-03-29T22:00:00Z'],
    ],
    [
      'hours on the day when the clocks go back: the window with the change is an hour longer',
      hours('Europe/Berlin', 6),
      '2026-10-24T22:00:00Z',
      ['2026-10-25T05:00:00Z', '2026-10-25T11:00:00Z', '2026-10-25T17:00:00Z', '2026-10-25T23:00:00Z'],
    ],
    [
      'hours that do not divide a day: its last window is shorter',
      hours('America/New_York', 7),
      '2026-06-01T04:00:00Z',
      ['2026-06-01T11:00:00Z', '2026-06-01T18:00:00Z', '2026-06-02T01:00:00Z', '2026-06-02T04:00:00Z'],
    ],
    [
      'single hours when one is skipped',
      hours('America/New_York', 1),
      '2026-03-08T05:30:00Z',
      ['2026-03-08T06:00:00Z', '2026-03-08T07:00:00Z', '2026-03-08T08:00:00Z'],
    ],
    [
      'single hours when one comes twice, and is one window of two hours',
      hours('America/New_York', 1),
      '2026-11-01T04:30:00Z',
      ['2026-11-01T05:00:00Z', '2026-11-01T07:00:00Z', '2026-11-01T08:00:00Z'],
    ],
    [
      'hours where the clocks go forward by half an hour',
      hours('Australia/Lord_Howe', 2),
      '2026-10-03T13:30:00Z',
      ['2026-10-03T15:30:00Z', '2026-10-03T17:00:00Z', '2026-10-03T19:00:00Z'],
    ],
    [
      'hours where the clocks go back by half an hour',
      hours('Australia/Lord_Howe', 2),
      '2026-04-04T13:00:00Z',
      ['2026-04-04T15:30:00Z', '2026-04-04T17:30:00Z'],
    ],
    [
      'days that begin at an hour that the clocks skip',
      daysFrom('Europe/Berlin', 2),
      '2026-03-28T00:00:00Z',
      ['2026-03-28T01:00:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:00:00Z'],
    ],
    [
      'hours of which one would begin within the time that the clocks skip',
      hours('Pacific/Chatham', 1),
      '2024-09-28T13:00:00Z',
      ['2024-09-28T13:15:00Z', '2024-09-28T14:00:00Z', '2024-09-28T14:15:00Z'],
    ],
    [
      'days that would begin within the time that the clocks skip',
      daysFrom('Antarctica/Troll', 2),
      '2024-03-30T12:00:00Z',
      ['2024-03-31T01:00:00Z', '2024-04-01T00:00:00Z'],
    ],
    [
      'days that begin at an hour that comes twice',
      daysFrom('Europe/Berlin', 2),
      '2026-10-24T12:00:00Z',
      ['2026-10-25T00:00:00Z', '2026-10-26T01:00:00Z'],
    ],
    [
      'months that begin at six, asked about before that hour of their first day',
      rule('month', 'Asia/Tokyo', 1, 1, { anchorHour: 6 }),
      '2026-04-30T20:00:00Z',
      ['2026-04-30T21:00:00Z', '2026-05-31T21:00:00Z'],
    ],
  ])('are right for %s', (_what, recurrence, after, expected) => {
    const found = boundariesAfter(recurrence, Date.parse(after), expected.length);
    expect(found.map((ms) => new Date(ms).toISOString().replace('.000Z', 'Z'))).toEqual(expected);
  });

  test.each([1, 5, 6, 8, 23])(
    'of %d hours begin each day at midnight, in each zone and at each change',
    (length) => {
      for (const zone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Cairo']) {
        const from = Date.UTC(2026, 0, 1);
        const starts = new Set(boundariesAfter(hours(zone, length), from, 400 * 24));
        const days = boundariesAfter(rule('day', zone), from, 366);
        expect(days.filter((day) => !starts.has(day))).toEqual([]);
      }
    },
  );

  test.each([
    rule('day', 'Asia/Kolkata'),
    rule('year', 'UTC', 31, 12, { anchorHour: 23 }),
    hours('Europe/Berlin', 1),
    hours('Europe/Berlin', 23),
  ])('follow from the rule that is stored: %j', (recurrence) => {
    expect(parseRecurrence(recurrenceText(recurrence))).toEqual(recurrence);
  });

  test.each(['hour UTC 1 1', 'hour UTC 1 1 24', 'day UTC 1 1 24', 'day UTC 1 1 x', 'day UTC 1'])(
    'do not follow from %p',
    (text) => {
      expect(parseRecurrence(text)).toBeUndefined();
    },
  );

  test.each(['Mars/Olympus', '+01:00', '', 'a b'])('need a known time zone, not %p', (zone) => {
    expect(isTimeZone(zone)).toBe(false);
  });
});

describe('budgets with a recurrence', () => {
  const on = useGovernance();

  const at = (tenant: TestTenant): string => `?scope=tenant:${tenant.id}&unit=TOKENS`;
  const put = (tenant: TestTenant, body: unknown): Promise<Answer> =>
    on.holdfast.admin('PUT', `/ops/budgets/recurrence${at(tenant)}`, body);
  const lookUp = async (tenant: TestTenant): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/budgets/lookup${at(tenant)}`), 200);
  const tagOf = ({ id }: TestTenant): string => tagOfTenant(id, 64);
  const turn = async (): Promise<unknown> =>
    on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });

  test.each(['Asia/Kolkata', 'Asia/Calcutta', 'europe/berlin', 'Europe/Kyiv'])(
    'give the time zone back as it was given: %s',
    async (zone) => {
      const tenant = await on.holdfast.fundedTenant(100);
      const set = expectStatus(await put(tenant, { every: 'day', time_zone: zone }), 200);
      expect(set).toMatchObject({ time_zone: zone });
      const read = await on.holdfast.admin('GET', `/ops/budgets/recurrence${at(tenant)}`);
      expect(expectStatus(read, 200)).toEqual(set);
    },
  );

  test('show their calendar, roll over at its boundaries, and can be ended', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const calendar = {
      every: 'month',
      time_zone: 'Europe/Berlin',
      anchor_day: 31,
      anchor_hour: 6,
      rollover_policy: 'CARRY_FORWARD',
    };
    const set = expectStatus(await put(tenant, calendar), 200);
    expect(set).toMatchObject({ ...calendar, period_allocated: { unit: 'TOKENS', amount: 100 } });
    expect(set.next_boundaries).toHaveLength(5);
    expect(set.period_end).toBe(set.next_boundaries[0]);
    const read = await on.holdfast.admin('GET', `/ops/budgets/recurrence${at(tenant)}`);
    expect(expectStatus(read, 200)).toEqual(set);
    await endPeriodAt(on.stored.redis, tenant.id, Date.now());
    const id = await on.holdfast.hold(tenant, 150);
    expect(await lookUp(tenant)).toMatchObject({ period_end: set.next_boundaries[1] });
    expectStatus(await on.holdfast.commit(tenant, id, 150), 200);
    const period = { period_end: '2100-01-01T00:00:00Z' };
    expectRefusal(
      await on.holdfast.admin('PATCH', `/ops/budgets/period${at(tenant)}`, period),
      400,
      'INVALID_REQUEST',
    );
    const ended = await on.holdfast.admin('DELETE', `/ops/budgets/recurrence${at(tenant)}`);
    expect(expectStatus(ended, 200)).toEqual({
      scope: `tenant:${tenant.id}`,
      unit: 'TOKENS',
      rollover_policy: 'CARRY_FORWARD',
      next_boundaries: [],
    });
    expect((await lookUp(tenant)).period_end).toBeUndefined();
    const told = async (): Promise<number> => (await eventsOf(on.holdfast, tenant, 'budget.updated')).length;
    const before = await told();
    expectStatus(await on.holdfast.admin('DELETE', `/ops/budgets/recurrence${at(tenant)}`), 200);
    expect(await told()).toBe(before);
  });

  test.each([
    [{ every: 'month', time_zone: 'Mars/Olympus' }, 'time_zone'],
    [{ every: 'hour', time_zone: 'UTC' }, 'every'],
    [{ every: 'week', time_zone: 'UTC', anchor_day: 8 }, 'anchor_day'],
    [{ every: 'day', time_zone: 'UTC', length_hours: 1 }, 'length_hours'],
    [{ every: 'day', time_zone: 'UTC', anchor_hour: 24 }, 'anchor_hour'],
    [{ every: 'day', time_zone: 'UTC', anchor_day: 1 }, 'anchor_day'],
    [{ every: 'month', time_zone: 'UTC', anchor_month: 1 }, 'anchor_month'],
    [{ every: 'year', time_zone: 'UTC', anchor_month: 13 }, 'anchor_month'],
  ])('refuse %j, naming %s', async (body, field) => {
    const refusal = expectRefusal(
      await put(await on.holdfast.fundedTenant(100), body),
      400,
      'INVALID_REQUEST',
    );
    expect(refusal.message).toContain(field);
  });

  test('stay in their period while no boundary is planned, and continue with the next plan', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await put(tenant, { every: 'day', time_zone: 'UTC' }), 200);
    const [key, tag, member] = [on.stored.budgetKey(tenant.id), tagOf(tenant), `tenant:${tenant.id} TOKENS`];
    const ended = Date.UTC(2026, 0, 1);
    await on.stored.redis.hset(key, 'boundaries', '');
    await endPeriodAt(on.stored.redis, tenant.id, ended);
    expect((await lookUp(tenant)).period_end).toBe(new Date(ended).toISOString());
    await on.stored.redis.zadd(periodPlansKey(tag), 0, member);
    const planned = await on.holdfast.metric('holdfast_budget_plans_total', { outcome: 'PLANNED' });
    await eventually('it is in its current period', async () => {
      await turn();
      return Date.parse((await lookUp(tenant)).period_end) > Date.now();
    });
    expect(await on.holdfast.metric('holdfast_budget_plans_total', { outcome: 'PLANNED' })).toBeGreaterThan(
      planned,
    );
  });

  test('leave the job that rolls them over if their record is damaged, which is counted', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await put(tenant, { every: 'day', time_zone: 'UTC' }), 200);
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id), 'period_allocated', 'many');
    await endPeriodAt(on.stored.redis, tenant.id, Date.now() - 1000);
    const damaged = (): Promise<number> => on.holdfast.metric('holdfast_budget_boundaries_damaged_total');
    const before = await damaged();
    await eventually('it is counted', async () => {
      await turn();
      return (await damaged()) > before;
    });
    await turn();
    expect(await damaged()).toBe(before + 1);
  });
});
