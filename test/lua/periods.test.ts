import { describe, expect, test } from '@jest/globals';
import {
  auditLogKey,
  budgetIndexKey,
  periodIndexKey,
  periodPlansKey,
  tenantIndexKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund, rollOver, setFrozen, setPeriod } from '../support/governance-client.js';
import { type LedgerClient } from '../support/ledger-client.js';
import { readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
/** A period of one day that ends in the year 2100, far from the server's own clock. */
const STARTS = Date.UTC(2100, 0, 1);
const ENDS = STARTS + DAY_MS;

interface Period {
  readonly policy?: string;
  readonly allocated?: string;
}

/** A tenant with a budget of 100 in the period above, seen within it. */
async function inPeriod({ policy = 'NONE', allocated = '100' }: Period = {}): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  const within = clockAt(ledger, STARTS + 1000);
  const reply = await createBudget(within, allocated, { starts: String(STARTS), ends: String(ENDS), policy });
  expect(reply[0]).toBe('CREATED');
  return within;
}

const periodOf = (ledger: LedgerClient): Promise<(string | null)[]> =>
  ledger.redis.hmget(ledger.budgetKeyOf(), 'period_start', 'period_end');
const rolloversOf = async (ledger: LedgerClient): Promise<Readonly<Record<string, string>>[]> =>
  (await readLedger(ledger)).events
    .filter(({ fields }) => fields['ty'] === 'budget.reset_spent')
    .map(({ fields }) => fields);
const rowsOf = async (ledger: LedgerClient): Promise<string[][]> =>
  (await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+'))
    .map(([, row]) => row)
    .filter((row) => row.includes('rollOverBudget'));
const spend = async (ledger: LedgerClient, amount: number): Promise<void> => {
  const { id } = await ledger.hold({ amount, ttlMs: 60_000 });
  expect((await ledger.commit(id, amount))[0]).toBe('COMMITTED');
};

describe('at the end of its period a budget', () => {
  test('rolls over in the millisecond of the boundary and not before, once, with one event and one audit row', async () => {
    shows('budget period');
    const ledger = await inPeriod();
    await spend(ledger, 30);
    expect((await clockAt(ledger, ENDS - 1).reserve({ amount: 80 }))[0]).toBe('BUDGET_EXCEEDED');
    expect(await rolloversOf(ledger)).toEqual([]);
    const after = clockAt(ledger, ENDS);
    expect((await after.reserve({ amount: 80 }))[0]).toBe('ALLOW');
    expect((await after.reserve({ amount: 20 }))[0]).toBe('ALLOW');
    expect(await ledger.figures()).toBe('0,100,0,100,0,0,0');
    expect(await periodOf(ledger)).toEqual([String(ENDS), String(ENDS + DAY_MS)]);
    expect(await rolloversOf(ledger)).toEqual([
      expect.objectContaining({
        ac: 'system',
        sc: ledger.scope(),
        tn: ledger.tenant,
        previous_spent: '30',
        new_spent: '0',
        previous_remaining: '70',
        new_remaining: '100',
        spent_override_provided: '0',
        new_period_start: String(ENDS),
        new_period_end: String(ENDS + DAY_MS),
      }),
    ]);
    expect(await rowsOf(ledger)).toHaveLength(1);
    expect((await rollOver(after)).slice(1)).toEqual([
      '1',
      '0',
      '0',
      '0',
      '',
      String(ENDS + DAY_MS),
      '0',
      '0',
    ]);
    expect((await rollOver(after))[1]).toBe('0');
    expect(await rolloversOf(ledger)).toHaveLength(1);
  });

  test.each([
    ['NONE', '100'],
    ['CARRY_FORWARD', '160'],
    ['CAP_AT_ALLOCATED', '160'],
  ])('with %s has an allocation of %s after 40 of 100 were spent', async (policy, allocated) => {
    const ledger = await inPeriod({ policy });
    await spend(ledger, 40);
    await rollOver(clockAt(ledger, ENDS));
    expect(await ledger.figures()).toBe(`${allocated},0,0,${allocated},0,0,0`);
  });

  test.each([
    ['NONE', '100'],
    ['CARRY_FORWARD', '1160'],
    ['CAP_AT_ALLOCATED', '200'],
  ])(
    'with %s that was idle for ten more periods has %s, and at most eight events',
    async (policy, allocated) => {
      const ledger = await inPeriod({ policy });
      await spend(ledger, 40);
      await rollOver(clockAt(ledger, ENDS + 10 * DAY_MS));
      expect(await ledger.figures()).toBe(`${allocated},0,0,${allocated},0,0,0`);
      expect(await periodOf(ledger)).toEqual([String(ENDS + 10 * DAY_MS), String(ENDS + 11 * DAY_MS)]);
      const told = await rolloversOf(ledger);
      expect(told.map(({ periods }) => periods)).toEqual(['1', '1', '1', '1', '1', '1', '1', '4']);
      for (const [index, { previous_allocated: before, previous_period_end: ended }] of told
        .slice(1)
        .entries()) {
        expect([before, ended]).toEqual([told[index]?.['new_allocated'], told[index]?.['new_period_end']]);
      }
    },
  );

  test.each(['CARRY_FORWARD', 'CAP_AT_ALLOCATED'])('with %s stops at the largest int64', async (policy) => {
    const most = '9223372036854775807';
    const ledger = await inPeriod({ policy, allocated: most });
    await rollOver(clockAt(ledger, ENDS + 100 * DAY_MS));
    expect(await ledger.figures()).toBe(`${most},0,0,${most},0,0,0`);
  });

  test('keeps holds and debt, and a hold is charged to the period of its commit', async () => {
    const ledger = await inPeriod({ policy: 'CARRY_FORWARD' });
    await ledger.redis.hset(ledger.budgetKeyOf(), { overdraft_limit: '50' });
    const before = clockAt(ledger, ENDS - 1000);
    const { id } = await before.hold({ amount: 90, ttlMs: 60_000 });
    const over = await before.hold({ amount: 10, ttlMs: 60_000, policy: 'ALLOW_WITH_OVERDRAFT' });
    await before.commit(over.id, 30);
    expect(await ledger.figures()).toBe('-20,90,10,100,20,50,0');
    const reply = await clockAt(ledger, ENDS).commit(id, 60);
    expect(reply.slice(0, 4)).toEqual(['COMMITTED', 'fresh', '60', '30']);
    expect(await ledger.figures()).toBe('110,0,60,190,20,50,0');
  });

  test.each(['release', 'expire'] as const)(
    'has the same figures whether holds %s before the rollover or after it',
    async (way) => {
      const figures = await Promise.all(
        [false, true].map(async (isRolledFirst) => {
          const ledger = await inPeriod({ policy: 'CAP_AT_ALLOCATED' });
          const { id } = await ledger.hold({ amount: 30, ttlMs: 60_000, graceMs: 0 });
          const after = clockAt(ledger, ENDS + 1);
          const end = (): Promise<unknown> =>
            way === 'expire' ? after.expire(id) : clockAt(ledger, STARTS + 2000).release(id);
          if (isRolledFirst) {
            await rollOver(after);
          }
          await end();
          await rollOver(after);
          return ledger.figures();
        }),
      );
      expect(figures).toEqual(['200,0,0,200,0,0,0', '200,0,0,200,0,0,0']);
    },
  );

  test('can be used again if it was over its limit, and reports that', async () => {
    const ledger = await inPeriod();
    const { id } = await ledger.hold({ amount: 100, ttlMs: 60_000 });
    await ledger.commit(id, 120);
    expect(await ledger.figures()).toBe('0,0,100,100,0,0,1');
    expect((await clockAt(ledger, ENDS).reserve({ amount: 1 }))[0]).toBe('ALLOW');
    expect((await readLedger(ledger)).events.map(({ fields }) => fields['ty'])).toContain(
      'budget.over_limit_exited',
    );
  });

  test('rolls over while it is frozen, and not after it was closed', async () => {
    const ledger = await inPeriod();
    await setFrozen(ledger, true);
    const after = clockAt(ledger, ENDS);
    expect((await after.reserve({ amount: 1 }))[0]).toBe('BUDGET_FROZEN');
    expect(await rolloversOf(ledger)).toHaveLength(1);
    await ledger.redis.hset(ledger.budgetKeyOf(), 'status', 'CLOSED');
    const later = clockAt(ledger, ENDS + DAY_MS);
    const read = await later.scripts.run('get_budget', [ledger.budgetKeyOf()], [ledger.scope()]);
    expect(read.lastIndexOf('period_start')).toBe(read.indexOf('period_start'));
    expect((await rollOver(clockAt(ledger, ENDS + DAY_MS))).slice(1)).toEqual([
      '1',
      '0',
      '0',
      '0',
      '',
      '',
      '0',
      '0',
    ]);
    expect(await periodOf(ledger)).toEqual([String(ENDS), String(ENDS + DAY_MS)]);
  });
});

describe('the allocation of the periods to come', () => {
  test.each([
    ['CREDIT', '100'],
    ['DEBIT', '100'],
    ['RESET', '70'],
    ['RESET_SPENT', '70'],
  ])('after a %s of 70 is %s', async (operation, expected) => {
    const ledger = await inPeriod();
    expect((await fund(ledger, 70, { operation }))[0]).toBe('FUNDED');
    await rollOver(clockAt(ledger, ENDS));
    expect(await ledger.figures()).toBe(`${expected},0,0,${expected},0,0,0`);
  });

  test('a funding operation after the boundary acts on the new period', async () => {
    const ledger = await inPeriod();
    await spend(ledger, 40);
    expect((await fund(clockAt(ledger, ENDS), 5)).slice(2, 6)).toEqual(['100', '105', '100', '105']);
  });
});

describe('reads after the boundary', () => {
  test('show the new period, and write nothing', async () => {
    const ledger = await inPeriod();
    await spend(ledger, 40);
    const [after, before] = [clockAt(ledger, ENDS), await snapshot(ledger)];
    const scope = ledger.scope();
    const balances = await after.scripts.run(
      'balances',
      [budgetIndexKey(ledger.tag, ledger.tenant)],
      ['', 10, 10, '1', scope, scope],
    );
    expect(balances).toEqual(['', '0', scope, 'TOKENS', '100,0,0,100,0,0,0']);
    const record = new Map<string, string>();
    for (const flat of [
      (await after.scripts.run('get_budget', [ledger.budgetKeyOf()], [scope])).slice(2),
      (await after.scripts.run('list_budgets', [tenantIndexKey(ledger.tag)], [ledger.tenant, '', '', 10]))
        .slice(3)
        .flatMap((budget) => budget.split('\u001f')),
    ]) {
      for (let at = 0; at < flat.length; at += 2) {
        record.set(flat[at] as string, flat[at + 1] as string);
      }
      expect([record.get('spent'), record.get('remaining'), record.get('period_start')]).toEqual([
        '0',
        '100',
        String(ENDS),
      ]);
    }
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('a replay returns the balances of its own time', async () => {
    const ledger = await inPeriod();
    const { id } = await ledger.hold({ amount: 40, ttlMs: 60_000 });
    const first = await ledger.commit(id, 40, { key: 'k' });
    const again = await clockAt(ledger, ENDS).commit(id, 40, { key: 'k' });
    expect(again.slice(2)).toEqual(first.slice(2));
    expect(await rolloversOf(ledger)).toEqual([]);
  });
});

describe('a period', () => {
  test.each([
    ['ENDED', STARTS - DAY_MS, STARTS],
    ['NOT_BEGUN', STARTS + 1000 + 1, ENDS],
    ['TOO_SHORT', STARTS + 999, STARTS + 999 + 59_999],
  ])('is refused as %s', async (reason, starts, ends) => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const [within, before] = [clockAt(ledger, STARTS + 1000), await snapshot(ledger)];
    const reply = await createBudget(within, '100', { starts: String(starts), ends: String(ends) });
    expect(reply).toEqual(['INVALID_PERIOD', reason]);
    expect(await snapshot(ledger)).toEqual(before);
    await createBudget(within, '100');
    const unchanged = await snapshot(ledger);
    expect(await setPeriod(within, String(starts), String(ends))).toEqual(['INVALID_PERIOD', reason]);
    expect(await setPeriod(within, String(STARTS), '')).toEqual(['INVALID_PERIOD', 'NO_END']);
    expect(await snapshot(ledger)).toEqual(unchanged);
  });

  test('can be added to a budget later, and begins then unless it has a start', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const within = clockAt(ledger, STARTS + 1000);
    await createBudget(within, '100');
    await spend(within, 40);
    expect((await setPeriod(within, '', String(ENDS)))[0]).toBe('CHANGED');
    expect(await periodOf(ledger)).toEqual([String(STARTS + 1000), String(ENDS)]);
    expect(await ledger.figures()).toBe('60,0,40,100,0,0,0');
    await rollOver(clockAt(ledger, ENDS));
    expect(await ledger.figures()).toBe('100,0,0,100,0,0,0');
  });
});

describe('a plan of boundaries', () => {
  test.each([
    ['got another rule', true],
    ['lost its rule', false],
  ])(
    'computed before the budget %s changes no boundary, and a new rule is planned later',
    async (_, hasRule) => {
      const ledger = await inPeriod();
      if (hasRule) {
        await ledger.redis.hset(ledger.budgetKeyOf(), {
          recurrence: 'new',
          boundaries: String(ENDS + DAY_MS),
        });
      }
      await ledger.redis.zadd(periodPlansKey(ledger.tag), ENDS, `${ledger.scope()} TOKENS`);
      const reply = await ledger.scripts.run(
        'plan_periods',
        [ledger.budgetKeyOf()],
        [ledger.scope(), 'TOKENS', 'old', ENDS + 1, ENDS + 2],
      );
      expect(reply).toEqual(['SKIP']);
      const stored = await ledger.redis.hget(ledger.budgetKeyOf(), 'boundaries');
      expect(stored).toBe(hasRule ? String(ENDS + DAY_MS) : null);
      expect(await ledger.redis.zcard(periodPlansKey(ledger.tag))).toBe(hasRule ? 1 : 0);
    },
  );
});

describe('a damaged period', () => {
  test.each([
    ['period_end', 'soon'],
    ['period_start', '-1'],
    ['period_start', String(ENDS)],
    ['rollover_policy', 'SOME'],
    ['period_allocated', '1e3'],
  ])('with %s = %s stops reserves with an error, and does not stop the job', async (field, value) => {
    const ledger = await inPeriod();
    await ledger.redis.hset(ledger.budgetKeyOf(), field, value);
    const [after, before] = [clockAt(ledger, ENDS), await snapshot(ledger)];
    await expect(after.reserve()).rejects.toThrow(`corrupt budget record ${ledger.budgetKeyOf()}`);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await rollOver(after)).slice(1)).toEqual([
      '0',
      '0',
      '0',
      '0',
      '',
      '',
      '0',
      '1',
      ledger.scope(),
      'TOKENS',
    ]);
    expect(await rollOver(after)).toHaveLength(9);
  });

  test.each([auditLogKey, periodIndexKey])('is not rolled over halfway if %p is damaged', async (keyOf) => {
    const ledger = await inPeriod();
    await ledger.redis.del(keyOf(ledger.tag));
    await ledger.redis.set(keyOf(ledger.tag), 'damaged');
    const before = await snapshot(ledger);
    await expect(clockAt(ledger, ENDS).reserve()).rejects.toThrow('WRONGTYPE');
    expect(await snapshot(ledger)).toEqual(before);
  });
});
