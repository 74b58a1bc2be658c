import { describe, expect, test } from '@jest/globals';
import { auditLogKey, periodPlansKey, waitersKey } from '../../src/redis/keyspace.js';
import { debit, decide } from '../support/admission-client.js';
import { CheckedScripts } from '../support/checked-scripts.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund, rollOver, setFrozen, setWindows } from '../support/governance-client.js';
import { LedgerClient, randomText } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { ONE, toldOf } from '../support/told-places.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
/** In the year 2100, far from the server's own clock. */
const STARTS = Date.UTC(2100, 0, 1);
const DAYS = Array.from({ length: 9 }, (_, day) => STARTS + (day + 1) * DAY_MS);
const ENDS = DAYS[0] as number;
const WEEKS = Array.from({ length: 9 }, (_, week) => STARTS + (week + 1) * 7 * DAY_MS);

/** A tenant with a budget of 1,000 and a limit of 100 per day, seen on that day. */
async function withDay(
  limit: number | string = 100,
  more: Record<string, string> = {},
): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  const within = clockAt(ledger, STARTS + 1000);
  await createBudget(within, '1000');
  await ledger.redis.hset(ledger.budgetKeyOf(), { overdraft_limit: '0', ...more });
  expect((await setWindows(within, [{ name: 'day', limit, ends: DAYS }]))[0]).toBe('CHANGED');
  return within;
}

/** What is spent in each window, with its name and limit. */
const spent = async (ledger: LedgerClient): Promise<string> =>
  String(await ledger.redis.hget(ledger.budgetKeyOf(), 'windows'))
    .split(' ')
    .map((window) => window.split(',').slice(0, 3).join())
    .join(' ');
const endOf = async (ledger: LedgerClient): Promise<number> =>
  Number((await ledger.redis.hget(ledger.budgetKeyOf(), 'windows'))?.split(' ')[0]?.split(',')[4]);
const spend = async (ledger: LedgerClient, amount: number): Promise<void> => {
  const { id } = await ledger.hold({ amount, ttlMs: 60_000 });
  expect((await ledger.commit(id, amount))[0]).toBe('COMMITTED');
};

describe('a window of a budget', () => {
  test('counts held and charged amounts, and its refusal names it', async () => {
    const ledger = await withDay();
    const { id } = await ledger.hold({ amount: 60 });
    const refusal = ['BUDGET_EXCEEDED', ledger.scope(), '40', 'day', '100'];
    expect(await ledger.reserve({ amount: 41 })).toEqual(refusal);
    expect(await spent(ledger)).toBe('day,100,0');
    await ledger.commit(id, 50);
    expect(await spent(ledger)).toBe('day,100,50');
    const { id: other } = await ledger.hold({ amount: 50 });
    expect((await ledger.reserve({ amount: 1 }))[3]).toBe('day');
    await ledger.release(other);
    expect((await ledger.reserve({ amount: 50 }))[0]).toBe('ALLOW');
    expect(await ledger.figures()).toBe('900,50,50,1000,0,0,0');
    await assertInvariants(ledger);
  });

  test('turns over in the millisecond of its end and not before, once, without an event', async () => {
    const ledger = await withDay();
    await spend(ledger, 100);
    expect((await clockAt(ledger, ENDS - 1).reserve({ amount: 1 }))[0]).toBe('BUDGET_EXCEEDED');
    const before = (await readLedger(ledger)).events.length;
    const after = clockAt(ledger, ENDS);
    expect((await after.reserve({ amount: 80 }))[0]).toBe('ALLOW');
    expect((await after.reserve({ amount: 20 }))[0]).toBe('ALLOW');
    expect((await after.reserve({ amount: 1 }))[0]).toBe('BUDGET_EXCEEDED');
    expect(await ledger.redis.hget(ledger.budgetKeyOf(), 'windows')).toBe(
      `day,100,0,${ENDS},${ENDS + DAY_MS}`,
    );
    const told = (await readLedger(ledger)).events.slice(before).map(({ fields }) => fields['ty']);
    expect(told).toEqual(['reservation.denied']);
    expect((await rollOver(ledger)).slice(1, 3)).toEqual(['0', '1']);
    expect((await rollOver(ledger)).slice(1, 3)).toEqual(['0', '0']);
  });

  test('that was idle for days turns over once into the current one, and stays in the last planned one', async () => {
    const ledger = await withDay();
    await spend(ledger, 100);
    await clockAt(ledger, ENDS + 3 * DAY_MS + 5).reserve({ amount: 1 });
    expect(await endOf(ledger)).toBe(ENDS + 4 * DAY_MS);
    expect((await rollOver(ledger))[2]).toBe('1');
    await spend(clockAt(ledger, ENDS + 30 * DAY_MS), 90);
    expect(await endOf(ledger)).toBe(DAYS.at(-1));
    expect((await clockAt(ledger, ENDS + 40 * DAY_MS).reserveToTheEnd({ amount: 11 }))[3]).toBe('day');
    expect((await rollOver(ledger))[2]).toBe('1');
  });

  test('is charged with a hold from the window before, and counts it until then', async () => {
    const ledger = await withDay();
    const { id } = await clockAt(ledger, ENDS - 1).hold({ amount: 70, ttlMs: 60_000 });
    const after = clockAt(ledger, ENDS);
    expect(await after.reserve({ amount: 31 })).toEqual([
      'BUDGET_EXCEEDED',
      ledger.scope(),
      '30',
      'day',
      '100',
    ]);
    expect((await after.commit(id, 60))[0]).toBe('COMMITTED');
    expect(await spent(ledger)).toBe('day,100,60');
    expect((await after.reserve({ amount: 40 }))[0]).toBe('ALLOW');
  });

  test.each([
    ['ALLOW_IF_AVAILABLE', '0', '100', '0', '900,0,100,1000,0,0,0'],
    ['ALLOW_WITH_OVERDRAFT', '0', '100', '0', '900,0,100,1000,0,0,0'],
    ['ALLOW_WITH_OVERDRAFT', '5000', '100', '0', '900,0,100,1000,0,5000,0'],
  ])(
    'caps an overage under %s with an overdraft limit of %s, and marks nothing as over limit',
    async (policy, limit, charged, debt, figures) => {
      const ledger = await withDay(100, { overdraft_limit: limit });
      const { id } = await ledger.hold({ amount: 80, policy });
      const reply = await ledger.commit(id, 150);
      expect([reply[2], reply[6], reply[7]]).toEqual([charged, '70', debt]);
      expect(await ledger.figures()).toBe(figures);
      expect(await spent(ledger)).toBe('day,100,100');
      expect((await clockAt(ledger, ENDS).reserve({ amount: 100 }))[0]).toBe('ALLOW');
      await assertInvariants(ledger);
    },
  );

  // A commit of 40 with an estimate of 20, when the window has room for 5 more.
  test.each([
    ['marks its budget as over limit if that does not cover the overage either', '10', '5,0,25,30,0,0,1'],
    ['does not mark its budget if that covers the overage', '20', '15,0,25,40,0,0,0'],
  ])('that caps an overage %s, whatever is left', async (_, left, figures) => {
    const ledger = await withDay(25);
    const { id } = await ledger.hold({ amount: 20, policy: 'ALLOW_IF_AVAILABLE' });
    const allocated = String(20 + Number(left));
    await ledger.redis.hset(ledger.budgetKeyOf(), { allocated, remaining: left });
    expect((await ledger.commit(id, 40)).slice(2, 3)).toEqual(['25']);
    expect(await ledger.figures()).toBe(figures);
    await assertInvariants(ledger);
  });

  test('counts what becomes debt, too', async () => {
    const ledger = await withDay(2000, { overdraft_limit: '500' });
    const { id } = await ledger.hold({ amount: 1000, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect((await ledger.commit(id, 1300)).slice(2, 8)).toEqual([
      '1300',
      '0',
      'TOKENS',
      'ALLOW_WITH_OVERDRAFT',
      '300',
      '300',
    ]);
    expect(await spent(ledger)).toBe('day,2000,1300');
    expect(await ledger.figures()).toBe('-300,0,1000,1000,300,500,0');
  });

  test.each([
    ['REJECT', ['BUDGET_EXCEEDED', '', '100', 'day', '100'], 'day,100,0'],
    ['ALLOW_IF_AVAILABLE', ['APPLIED', '100'], 'day,100,100'],
  ])('limits direct debits under %s', async (policy, expected, counted) => {
    const ledger = await withDay();
    const reply = await debit(ledger, { amount: 130, policy });
    const shown = reply[0] === 'APPLIED' ? [reply[0], reply[3]] : [reply[0], '', ...reply.slice(2)];
    expect(shown).toEqual(expected);
    expect(await spent(ledger)).toBe(counted);
    await assertInvariants(ledger);
  });

  test('denies a dry run and a decision, which have no detail for clients that do not request it', async () => {
    const ledger = await withDay();
    expect(await ledger.reserve({ amount: 101, dryRun: true })).toEqual(['DENY', 'fresh', 'BUDGET_EXCEEDED']);
    expect(await decide(ledger, { amount: 101 })).toEqual(['DENY', 'fresh', 'BUDGET_EXCEEDED']);
    const asked = { amount: 101, fields: { pk: '{}' }, key: 'asked' };
    const detail = ['BUDGET_EXCEEDED', ledger.scope(), '100', '', 'day', '', '', '100', ''];
    expect(await decide(ledger, asked)).toEqual(['DENY', 'fresh', ...detail]);
    expect(await decide(ledger, asked)).toEqual(['DENY', 'replay', ...detail]);
    const { events } = await readLedger(ledger);
    expect(events.at(-1)?.fields).toMatchObject({
      ty: 'reservation.denied',
      window: 'day',
      remaining: '100',
    });
  });

  test('is one of several, and the first with too little room is named', async () => {
    const ledger = await withDay();
    await setWindows(ledger, [
      { name: 'day', limit: 100, ends: DAYS },
      { name: 'week', limit: 150, ends: WEEKS },
    ]);
    await spend(ledger, 100);
    expect(await spent(ledger)).toBe('day,100,100 week,150,100');
    const after = clockAt(ledger, ENDS);
    expect(await after.reserve({ amount: 51 })).toEqual([
      'BUDGET_EXCEEDED',
      ledger.scope(),
      '50',
      'week',
      '150',
    ]);
    expect(await after.reserve({ amount: 101 })).toEqual([
      'BUDGET_EXCEEDED',
      ledger.scope(),
      '100',
      'day',
      '100',
    ]);
    expect(await after.reserve({ amount: 901 })).toEqual(['BUDGET_EXCEEDED', ledger.scope(), '900']);
    await spend(after, 50);
    expect(await spent(ledger)).toBe('day,100,50 week,150,150');
  });

  test('is exact up to the largest int64, and refuses a charge beyond it', async () => {
    const most = '9223372036854775807';
    const ledger = await withDay(most);
    await fund(ledger, most, { operation: 'RESET' });
    const first = await ledger.hold({ amount: '9223372036854775800', policy: 'ALLOW_WITH_OVERDRAFT' });
    expect(await ledger.reserve({ amount: 8 })).toEqual(['BUDGET_EXCEEDED', ledger.scope(), '7']);
    await ledger.commit(first.id, '9223372036854775799');
    expect(await spent(ledger)).toBe(`day,${most},9223372036854775799`);
    await fund(ledger, most, { operation: 'RESET_SPENT', spent: 0 });
    expect(await ledger.reserve({ amount: 9 })).toEqual([
      'BUDGET_EXCEEDED',
      ledger.scope(),
      '8',
      'day',
      most,
    ]);
    const { id } = await ledger.hold({ amount: 8 });
    await setWindows(ledger, [{ name: 'day', limit: 0, ends: DAYS }]);
    expect((await ledger.commit(id, 8))[0]).toBe('COMMITTED');
    await ledger.redis.hset(ledger.budgetKeyOf(), 'windows', `day,${most},0,${STARTS},${ENDS}`);
    const held = await ledger.hold({ amount: 9 });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'windows', `day,${most},${most},${STARTS},${ENDS}`);
    expect(await ledger.commit(held.id, 9)).toEqual(['INT64_OVERFLOW', ledger.scope()]);
  });
});

describe('the windows of a budget', () => {
  test('that are set again keep what is spent under their names, with one event and one audit row per change', async () => {
    const ledger = await withDay();
    await spend(ledger, 30);
    await setWindows(ledger, [
      { name: 'week', limit: 500, ends: WEEKS },
      { name: 'day', limit: 50, ends: DAYS.map((end) => end + 3_600_000) },
    ]);
    expect(await ledger.redis.hget(ledger.budgetKeyOf(), 'windows')).toBe(
      `week,500,0,${STARTS + 1000},${WEEKS[0]} day,50,30,${STARTS + 1000},${ENDS + 3_600_000}`,
    );
    expect(await ledger.redis.zrange(periodPlansKey(ledger.tag), '0', '-1')).toEqual([
      `${ledger.scope()} TOKENS day`,
      `${ledger.scope()} TOKENS week`,
    ]);
    expect((await ledger.reserve({ amount: 21 }))[3]).toBe('day');
    await setWindows(ledger, []);
    expect((await ledger.reserve({ amount: 900 }))[0]).toBe('ALLOW');
    expect(await ledger.redis.hmget(ledger.budgetKeyOf(), 'windows', 'window_rules', 'window_plans')).toEqual(
      [null, null, null],
    );
    expect(await ledger.redis.zcard(periodPlansKey(ledger.tag))).toBe(0);
    const told = (await readLedger(ledger)).events.filter(({ fields }) => fields['ty'] === 'budget.updated');
    expect(told.map(({ fields }) => fields['changed_fields'])).toEqual(['windows', 'windows', 'windows']);
    const rows = (await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+')).map(([, row]) =>
      row.join(' '),
    );
    expect(rows.filter((row) => row.includes('BudgetWindows'))).toHaveLength(3);
    const ended = await snapshot(ledger);
    expect((await setWindows(ledger, []))[0]).toBe('CHANGED');
    expect(await snapshot(ledger)).toEqual(ended);
  });

  test('continue while the budget is frozen or starts a new period, and stop when it is closed', async () => {
    const ledger = await withDay();
    await spend(ledger, 40);
    await ledger.redis.hset(ledger.budgetKeyOf(), {
      period_start: STARTS,
      period_end: ENDS - 1000,
      period_allocated: '1000',
    });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'rollover_policy', 'NONE');
    await clockAt(ledger, ENDS - 1000).reserve({ amount: 1 });
    expect(await ledger.figures()).toBe('999,1,0,1000,0,0,0');
    expect(await spent(ledger)).toBe('day,100,40');
    await setFrozen(ledger, true);
    expect((await clockAt(ledger, ENDS).reserve({ amount: 1 }))[0]).toBe('BUDGET_FROZEN');
    expect(await endOf(ledger)).toBe(ENDS + DAY_MS);
    await ledger.redis.hset(ledger.budgetKeyOf(), 'status', 'CLOSED');
    expect((await clockAt(ledger, ENDS + DAY_MS).reserve({ amount: 1 }))[0]).toBe('BUDGET_CLOSED');
    expect(await endOf(ledger)).toBe(ENDS + DAY_MS);
    const read = await clockAt(ledger, ENDS + DAY_MS).scripts.run(
      'get_budget',
      [ledger.budgetKeyOf()],
      [ledger.scope()],
    );
    expect(read[read.lastIndexOf('windows') + 1]).toBe(`day,100,0,${ENDS},${ENDS + DAY_MS}`);
  });

  test('are planned again before their boundaries run out, however long they have been idle', async () => {
    const ledger = await withDay();
    await spend(ledger, 40);
    const later = clockAt(ledger, (DAYS[5] as number) + 1);
    expect(
      (
        await clockAt(ledger, DAYS[3] as number).scripts.run(
          'get_budget',
          [ledger.budgetKeyOf()],
          [ledger.scope()],
        )
      )[0],
    ).toBe('FOUND');
    const look = await rollOver(later);
    expect(look.slice(2, 3)).toEqual(['1']);
    expect(look.slice(9)).toEqual([ledger.scope(), 'TOKENS', 'day', 'rule of day', String(DAYS[6])]);
    const instants = Array.from({ length: 20 }, (_, day) => (DAYS[0] as number) + day * DAY_MS);
    const plan = (rule: string, name = 'day'): Promise<string[]> =>
      later.scripts.run(
        'plan_window',
        [ledger.budgetKeyOf()],
        [ledger.scope(), 'TOKENS', name, rule, ...instants],
      );
    expect(await plan('an older rule')).toEqual(['SKIP']);
    expect(await ledger.redis.zcard(periodPlansKey(ledger.tag))).toBe(1);
    expect(await plan('rule of day')).toEqual(['PLANNED']);
    expect(await ledger.redis.hget(ledger.budgetKeyOf(), 'window_plans')).toBe(instants.slice(7).join());
    expect(await rollOver(later)).toHaveLength(9);
    await ledger.redis.zadd(periodPlansKey(ledger.tag), 1, `${ledger.scope()} TOKENS gone`);
    expect((await rollOver(later)).slice(9)).toEqual([ledger.scope(), 'TOKENS', 'gone', '', '']);
    expect(await plan('', 'gone')).toEqual(['SKIP']);
    await ledger.redis.zadd(periodPlansKey(ledger.tag), 1, `${ledger.scope()} TOKENS day`);
    await ledger.redis.hdel(ledger.budgetKeyOf(), 'window_rules');
    expect(await plan('rule of day')).toEqual(['SKIP']);
    expect(await rollOver(later)).toHaveLength(9);
  });

  test('are shown in their current state by a read, which writes nothing', async () => {
    const ledger = await withDay();
    await spend(ledger, 40);
    const before = await snapshot(ledger);
    const read = await clockAt(ledger, ENDS).scripts.run(
      'get_budget',
      [ledger.budgetKeyOf()],
      [ledger.scope()],
    );
    expect(read[read.lastIndexOf('windows') + 1]).toBe(`day,100,0,${ENDS},${ENDS + DAY_MS}`);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('wake the first waiting reserve when one of them turns over', async () => {
    const ledger = await withDay();
    await spend(ledger, 100);
    const [place, key] = [`${ONE}.1.60`, randomText(12)];
    const [word, number] = await ledger.reserve({ amount: 60, key, waiter: `9 9000 ${place} - -` });
    expect(word).toBe('WAITING');
    const renewed = (at: number): Promise<string[]> =>
      clockAt(ledger, at).scripts.run(
        'renew_waiters',
        [waitersKey(ledger.tag, ledger.tenant)],
        [ledger.tenant, 3000, place, number as string, 'TOKENS', ledger.scope(), key],
      );
    expect(await renewed(ENDS - 1)).toEqual(['RENEWED']);
    expect(await renewed(ENDS)).toEqual(['RENEWED', place]);
    const heard = await toldOf(ledger, () => clockAt(ledger, ENDS).reserve({ amount: 100, dryRun: true }));
    expect(heard).toEqual([place]);
    const waiter = `9 9000 ${place} ${number} ${ledger.scope()}`;
    expect((await clockAt(ledger, ENDS).reserve({ amount: 60, key, waiter }))[0]).toBe('ALLOW');
  });

  test.each([
    ['windows', 'day'],
    ['windows', `day,-1,0,${STARTS},${ENDS}`],
    ['windows', `day,1,1e3,${STARTS},${ENDS}`],
    ['windows', `day,1,0,${ENDS},${STARTS}`],
    ['windows', ''],
    ['window_plans', `${ENDS}`],
    ['window_plans', 'soon'],
    ['window_plans', `${DAYS[1]}|${DAYS[2]}`],
  ])('with %s = %s stop reserves with an error and write nothing', async (field, value) => {
    const ledger = await withDay();
    await ledger.redis.hset(ledger.budgetKeyOf(), field, value);
    const [after, before] = [clockAt(ledger, ENDS), await snapshot(ledger)];
    await expect(after.reserve()).rejects.toThrow(`corrupt budget record ${ledger.budgetKeyOf()}`);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await setWindows(ledger, []))[0]).toBe('CHANGED');
    expect((await after.reserve())[0]).toBe('ALLOW');
  });
});

test('calls of one run count with each other in a window', async () => {
  const ledger = await withDay();
  const holds = await Promise.all([20, 20, 20].map((amount) => ledger.hold({ amount })));
  // By the server's own clock the first window has not ended, so calls can share a run.
  const runs: number[] = [];
  const scripts = new CheckedScripts(ledger.redis, undefined, undefined, (_, calls) => runs.push(calls));
  const together = new LedgerClient(ledger.redis, ledger.tag, ledger.tenant, scripts);
  await Promise.all(holds.map(({ id }) => together.commit(id, 15)));
  expect(await spent(ledger)).toBe('day,100,45');
  const replies = await Promise.all([10, 30, 20, 15, 1].map((amount) => together.reserve({ amount })));
  expect(replies.map(([word]) => word)).toEqual([
    'ALLOW',
    'ALLOW',
    'BUDGET_EXCEEDED',
    'ALLOW',
    'BUDGET_EXCEEDED',
  ]);
  expect(runs).toEqual([3, 5]);
  await assertInvariants(ledger);
});
