import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import {
  boundariesAfter,
  canonicalZone,
  type Recurrence,
  recurrenceText,
} from '../../src/governance/budgets/recurrence.js';
import {
  partitionCode,
  partitionOfTenant,
  periodIndexKey,
  periodPlansKey,
  tagOf,
} from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const rule = (every: Recurrence['every'], timeZone: string, anchorDay = 1, anchorMonth = 1): Recurrence => ({
  every,
  timeZone,
  anchorDay,
  anchorMonth,
});

describe('the boundaries of a recurrence', () => {
  test.each<[string, Recurrence, string, string[]]>([
    [
      'days across the change to summer time',
      rule('day', 'Europe/Berlin'),
      '2026-03-28T12:00:00Z',
      ['2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z', '2026-03-30T22:00:00Z'],
    ],
    [
      'days across the change to winter time',
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
      'a midnight that comes twice',
      rule('day', 'America/Havana'),
      '2026-10-31T12:00:00Z',
      ['2026-11-01T04:00:00Z', '2026-11-02T05:00:00Z'],
    ],
    [
      'a day that a zone left out',
      rule('day', 'Pacific/Apia'),
      '2011-12-29T11:00:00Z',
      ['2011-12-30T10:00:00Z', '2011-12-31T10:00:00Z'],
    ],
    [
      'weeks from Monday, half an hour off',
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
  ])('are right for %s', (_what, recurrence, after, expected) => {
    const found = boundariesAfter(recurrence, Date.parse(after), expected.length);
    expect(found.map((ms) => new Date(ms).toISOString().replace('.000Z', 'Z'))).toEqual(expected);
  });

  test.each(['Mars/Olympus', '+01:00', '', 'a b'])('need a known time zone, not %p', (zone) => {
    expect(canonicalZone(zone)).toBeUndefined();
  });
});

describe('budgets with a recurrence', () => {
  const on = useGovernance();
  let other: Holdfast;
  beforeAll(async () => {
    other = await Holdfast.start({ REDIS_URL: on.redis.url });
  });
  afterAll(() => other.stop());

  const at = (tenant: TestTenant): string => `?scope=tenant:${tenant.id}&unit=TOKENS`;
  const put = (tenant: TestTenant, body: unknown): Promise<Answer> =>
    on.holdfast.admin('PUT', `/ops/budgets/recurrence${at(tenant)}`, body);
  const lookUp = async (tenant: TestTenant): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/budgets/lookup${at(tenant)}`), 200);
  const tagOfTenant = ({ id }: TestTenant): string => tagOf(partitionCode(partitionOfTenant(id, 64)));
  const turn = async (instance: Holdfast): Promise<unknown> =>
    instance.app.get(BudgetRollovers).runTurn({ goesOn: () => true });

  async function withBudget(): Promise<TestTenant> {
    const tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '', 100);
    return tenant;
  }

  /** Moves the end of the period to an instant, with every boundary after it. */
  async function endAt(key: string, tenant: TestTenant, member: string, ms: number): Promise<void> {
    await on.stored.redis.hset(key, 'period_start', ms - 86_400_000, 'period_end', ms);
    await on.stored.redis.zadd(periodIndexKey(tagOfTenant(tenant)), ms, member);
  }

  test('show their calendar, roll over at its boundaries, and can be ended', async () => {
    const tenant = await withBudget();
    const calendar = {
      every: 'month',
      time_zone: 'Europe/Berlin',
      anchor_day: 31,
      rollover_policy: 'CARRY_FORWARD',
    };
    const set = expectStatus(await put(tenant, { ...calendar, time_zone: 'europe/berlin' }), 200);
    expect(set).toMatchObject({ ...calendar, period_allocated: { unit: 'TOKENS', amount: 100 } });
    expect(set.next_boundaries).toHaveLength(5);
    expect(set.period_end).toBe(set.next_boundaries[0]);
    const read = await on.holdfast.admin('GET', `/ops/budgets/recurrence${at(tenant)}`);
    expect(expectStatus(read, 200)).toEqual(set);
    await endAt(on.stored.budgetKey(tenant.id), tenant, `tenant:${tenant.id} TOKENS`, Date.now());
    const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 150), 200);
    expect(await lookUp(tenant)).toMatchObject({ period_end: set.next_boundaries[1] });
    expectStatus(await on.holdfast.commit(tenant, id as string, 150), 200);
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
  });

  test.each([
    [{ every: 'month', time_zone: 'Mars/Olympus' }, 'time_zone'],
    [{ every: 'hour', time_zone: 'UTC' }, 'every'],
    [{ every: 'week', time_zone: 'UTC', anchor_day: 8 }, 'anchor_day'],
    [{ every: 'day', time_zone: 'UTC', anchor_day: 1 }, 'anchor_day'],
    [{ every: 'month', time_zone: 'UTC', anchor_month: 1 }, 'anchor_month'],
    [{ every: 'year', time_zone: 'UTC', anchor_month: 13 }, 'anchor_month'],
  ])('refuse %j, naming %s', async (body, field) => {
    const refusal = expectRefusal(await put(await withBudget(), body), 400, 'INVALID_REQUEST');
    expect(refusal.message).toContain(field);
  });

  test('stay in their period when no boundary is planned, and go on from the next plan', async () => {
    const tenant = await withBudget();
    expectStatus(await put(tenant, { every: 'day', time_zone: 'UTC' }), 200);
    const [key, tag, member] = [
      on.stored.budgetKey(tenant.id),
      tagOfTenant(tenant),
      `tenant:${tenant.id} TOKENS`,
    ];
    const ended = Date.UTC(2026, 0, 1);
    await on.stored.redis.hset(key, 'boundaries', '');
    await endAt(key, tenant, member, ended);
    expect((await lookUp(tenant)).period_end).toBe(new Date(ended).toISOString());
    await on.stored.redis.zadd(periodPlansKey(tag), 0, member);
    const planned = await on.holdfast.metric('holdfast_budget_plans_total', { outcome: 'PLANNED' });
    await eventually('it is in its current period', async () => {
      await turn(on.holdfast);
      return Date.parse((await lookUp(tenant)).period_end) > Date.now();
    });
    expect(await on.holdfast.metric('holdfast_budget_plans_total', { outcome: 'PLANNED' })).toBeGreaterThan(
      planned,
    );
  });

  test('500 in five zones roll over once each at one instant, under load from two instances, with exact sums', async () => {
    const zones = [
      'Europe/Berlin',
      'America/New_York',
      'Asia/Kolkata',
      'Pacific/Auckland',
      'America/Sao_Paulo',
    ];
    const each = 100;
    const tenants: TestTenant[] = [];
    const end = Date.now() + 1500;
    for (const zone of zones) {
      const tenant = await on.holdfast.createTenant();
      tenants.push(tenant);
      const pipeline = on.stored.redis.pipeline();
      const calendar = rule('day', zone);
      for (let number = 0; number < each; number += 1) {
        const scope = `tenant:${tenant.id}/app:a${number}`;
        const figures = {
          remaining: 100,
          allocated: 100,
          reserved: 0,
          spent: 0,
          debt: 0,
          overdraft_limit: 0,
        };
        pipeline.hset(`${tagOfTenant(tenant)}b:TOKENS:${scope}`, {
          ...figures,
          status: 'ACTIVE',
          is_over_limit: '0',
          ledger_id: `ldg_${number}`,
          tenant_id: tenant.id,
          created_at: '0',
          updated_at: '0',
          period_start: end - 86_400_000,
          period_end: end,
          period_allocated: 100,
          rollover_policy: 'CARRY_FORWARD',
          recurrence: recurrenceText(calendar),
          boundaries: boundariesAfter(calendar, end + 60_000, 3).join(','),
        });
        pipeline.zadd(`${tagOfTenant(tenant)}budgets:${tenant.id}`, 0, `${scope} TOKENS`);
        pipeline.zadd(periodIndexKey(tagOfTenant(tenant)), end, `${scope} TOKENS`);
      }
      await pipeline.exec();
    }
    let committed = 0;
    const load = async (instance: Holdfast, seed: number): Promise<void> => {
      for (let number = 0; Date.now() < end + 300; number += 1) {
        const tenant = tenants[(number + seed) % tenants.length] as TestTenant;
        const subject = { tenant: tenant.id, app: `a${(number * 7 + seed) % each}` };
        const held = await instance.reserve(tenant, 2, { subject });
        if (held.status === 200) {
          expectStatus(await instance.commit(tenant, held.body.reservation_id as string, 1), 200);
          committed += 1;
        }
      }
    };
    const roll = async (instance: Holdfast): Promise<void> => {
      await eventually('all have rolled over', async () => {
        await turn(instance);
        const left = await Promise.all(
          tenants.map((tenant) => on.stored.redis.zcount(periodIndexKey(tagOfTenant(tenant)), '-inf', end)),
        );
        return left.every((count) => count === 0);
      });
    };
    const all = [on.holdfast, other];
    await Promise.all([...all.map((instance, index) => load(instance, index * 3)), ...all.map(roll)]);
    let [spent, allocated, remaining] = [0, 0, 0];
    for (const tenant of tenants) {
      const told = (await on.stored.events(tenant.id)).filter(({ type }) => type === 'budget.reset_spent');
      expect(new Set(told.map(({ fields }) => fields['sc'])).size).toBe(each);
      expect(told).toHaveLength(each);
      spent += told.reduce((sum, { fields }) => sum + Number(fields['previous_spent']), 0);
      for (let number = 0; number < each; number += 1) {
        const key = `${tagOfTenant(tenant)}b:TOKENS:tenant:${tenant.id}/app:a${number}`;
        const figures = (await on.stored.redis.hmget(key, 'spent', 'allocated', 'remaining', 'reserved')).map(
          Number,
        );
        expect(figures[3]).toBe(0);
        spent += figures[0] as number;
        allocated += figures[1] as number;
        remaining += figures[2] as number;
      }
    }
    expect(committed).toBeGreaterThan(0);
    expect(spent).toBe(committed);
    expect(remaining).toBe(2 * 100 * each * zones.length - committed);
    expect(allocated).toBeGreaterThanOrEqual(remaining);
  }, 60_000);
});
