import { describe, expect, test } from '@jest/globals';
import { budgetKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import { bulkBudget, createBudget, fund, updateBudget } from '../support/governance-client.js';
import type { BudgetOptions, LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, isCrossing } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/** budget.threshold_crossed: EventDataBudgetThreshold of the governance plane. */

const newLedger = useLedger();
const AGENT = { agent: 'Bot' };

async function crossings(ledger: LedgerClient): Promise<string[]> {
  const { events } = await assertInvariants(ledger);
  return events
    .filter(isCrossing)
    .map(
      ({ fields }) =>
        `${fields['sc']} ${fields['threshold']} ${fields['direction']} at ${fields['utilization']}`,
    );
}

async function amountCrossings(ledger: LedgerClient): Promise<string[]> {
  const { events } = await assertInvariants(ledger);
  return events
    .filter(isCrossing)
    .filter(({ fields }) => fields['threshold_amount'] !== undefined)
    .map(
      ({ fields }) =>
        `${fields['sc']} ${fields['threshold_amount']} ${fields['direction']} at ${fields['utilization']}`,
    );
}

describe('a threshold that the use of a budget crosses', () => {
  test('is emitted although others in the list are damaged', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ th: 'junk,0.5,x' });
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 60 });
    await ledger.commit(id, 60);
    expect(await crossings(ledger)).toEqual([`${scope} 0.5 rising at 0.6000`]);
  });

  test('is emitted once for each crossing and scope, with its figures', async () => {
    const ledger = await newLedger();
    const root = await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    const { id } = await ledger.hold({ subject: AGENT, amount: 80 });
    await ledger.hold({ subject: AGENT, amount: 10 });
    expect(await crossings(ledger)).toEqual([`${leaf} 0.8 rising at 0.8000`]);
    await ledger.commit(id, 60);
    expect(await crossings(ledger)).toEqual([
      `${leaf} 0.8 rising at 0.8000`,
      `${leaf} 0.8 falling at 0.7000`,
    ]);
    const { events } = await assertInvariants(ledger);
    expect(events.filter(isCrossing)[1]?.fields).toEqual({
      ty: 'budget.threshold_crossed',
      tn: ledger.tenant,
      sc: leaf,
      ac: 'api_key',
      ki: 'key_1',
      rq: 'req_commit',
      tr: expect.any(String),
      unit: 'TOKENS',
      threshold: '0.8',
      utilization: '0.7000',
      direction: 'falling',
      allocated: '100',
      remaining: '30',
      spent: '60',
      reserved: '10',
    });
    expect(root).not.toBe(leaf);
  });

  test('several at once are emitted in ascending order, and again when utilization falls below each', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    const rising = ['0.8', '0.95', '1'].map((mark) => `${scope} ${mark} rising at 1.0000`);
    expect(await crossings(ledger)).toEqual(rising);
    await ledger.release(id);
    expect(await crossings(ledger)).toEqual([
      ...rising,
      ...['0.8', '0.95', '1'].map((mark) => `${scope} ${mark} falling at 0.0000`),
    ]);
  });

  test('is emitted when the sweep returns budget, once for all holds that end in one page', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const holds = [
      await ledger.hold({ amount: 30 }),
      await ledger.hold({ amount: 30 }),
      await ledger.hold({ amount: 30 }),
    ];
    await Promise.all(holds.map(({ id }) => ledger.makeOverdue(id)));
    expect((await ledger.expirePage(holds.map(({ id }) => id)))[0]).toBe('JUDGED');
    expect(await crossings(ledger)).toEqual([
      `${scope} 0.8 rising at 0.9000`,
      `${scope} 0.8 falling at 0.0000`,
    ]);
  });
});

describe('use that hovers about a threshold', () => {
  async function firsts(ledger: LedgerClient): Promise<string[]> {
    const { events } = await assertInvariants(ledger);
    return events
      .filter(isCrossing)
      .map(({ fields }) => `${fields['threshold']} ${fields['direction']}${fields['first_in_period'] ?? ''}`);
  }

  test('is told of as the first only once, and again after funding has put it below', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 75 });
    const turns: string[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { id } = await ledger.hold({ amount: 10 });
      await ledger.release(id);
      turns.push(turn === 0 ? '0.8 rising1' : '0.8 rising', '0.8 falling');
    }
    expect(await firsts(ledger)).toEqual(turns);
    await ledger.hold({ amount: 10 });
    await fund(ledger, 100, { operation: 'CREDIT' });
    await ledger.hold({ amount: 80 });
    expect((await firsts(ledger)).slice(turns.length)).toEqual(['0.8 rising', '0.8 falling', '0.8 rising1']);
  });

  test('is told of again in the next period, also if it was below at the end of the last one', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100, spent: 75 });
    const key = budgetKey(ledger.tag, 'TOKENS', scope);
    for (const starts of ['1000', '2000']) {
      await ledger.redis.hset(key, { period_start: starts });
      for (let turn = 0; turn < 2; turn += 1) {
        const { id } = await ledger.hold({ amount: 10 });
        await ledger.release(id);
      }
    }
    const period = ['0.8 rising1', '0.8 falling', '0.8 rising', '0.8 falling'];
    expect(await firsts(ledger)).toEqual([...period, ...period]);
  });
});

const rising = (...marks: number[]): string[] => marks.map((mark) => `${mark} rising`);
const falling = (...marks: number[]): string[] => marks.map((mark) => `${mark} falling`);

/** The crossings of the tenant's root budget, without its scope and utilization. */
const crossed = async (ledger: LedgerClient): Promise<string[]> =>
  (await crossings(ledger)).map((text) => text.split(' ').slice(1, 3).join(' '));

describe('an operator who changes funds', () => {
  const CHANGES: readonly [
    operation: string,
    amount: number,
    budget: BudgetOptions,
    expected: readonly string[],
  ][] = [
    ['CREDIT', 600, { allocated: 400, spent: 400 }, falling(0.8, 0.95, 1)],
    ['CREDIT', 100, { allocated: 1000, spent: 880 }, []],
    // What was owed becomes spent.
    ['CREDIT', 300, { allocated: 1000, spent: 700, debt: 500, overdraftLimit: 500 }, []],
    ['CREDIT', 200, { allocated: 100, spent: 70, debt: 200, overdraftLimit: 500 }, rising(0.8)],
    ['DEBIT', 600, { allocated: 1000, spent: 400 }, rising(0.8, 0.95, 1)],
    ['DEBIT', 500, { allocated: 1000, spent: 400 }, rising(0.8)],
    ['RESET', 450, { allocated: 1000, spent: 400 }, rising(0.8)],
    ['RESET', 300, { allocated: 1000, spent: 400 }, rising(0.8, 0.95, 1)],
    ['RESET', 1000, { allocated: 450, spent: 400 }, falling(0.8)],
    ['RESET', 1000, { allocated: 2000, spent: 400 }, []],
    ['RESET_SPENT', 1000, { allocated: 1000, spent: 900 }, falling(0.8)],
    ['REPAY_DEBT', 1000, { allocated: 100, spent: 90, debt: 50, overdraftLimit: 50 }, falling(0.8)],
    ['REPAY_DEBT', 50, { allocated: 100, spent: 90, debt: 50, overdraftLimit: 50 }, []],
  ];

  describe.each([
    ['of one budget', fund],
    [
      'in a bulk action',
      (ledger: LedgerClient, amount: number, { operation }: { readonly operation: string }) =>
        bulkBudget(ledger, operation, String(amount)),
    ],
  ])('%s', (_where, change) => {
    test.each(CHANGES)(
      'by %s of %d on %j emits the crossings %j',
      async (operation, amount, budget, expected) => {
        shows('threshold crossings');
        const ledger = await newLedger();
        await ledger.makeTenant();
        await ledger.makeBudget(budget);
        expect(['FUNDED', 'SUCCEEDED']).toContain((await change(ledger, amount, { operation }))[0]);
        expect(await crossed(ledger)).toEqual(expected);
      },
    );
  });

  test('emits them after the change, with its origin and the new figures, at the marks of the tenant', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ th: '0.85' });
    const scope = await ledger.makeBudget({ allocated: 1000, spent: 400 });
    await fund(ledger, 450, { operation: 'RESET' });
    const { events } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => fields['ty'])).toEqual(['budget.reset', 'budget.threshold_crossed']);
    expect(events[1]?.fields).toEqual({
      ty: 'budget.threshold_crossed',
      tn: ledger.tenant,
      sc: scope,
      ac: 'api_key',
      ki: 'key_1',
      rq: 'req_fund',
      tr: expect.any(String),
      unit: 'TOKENS',
      threshold: '0.85',
      utilization: '0.8889',
      direction: 'rising',
      first_in_period: '1',
      allocated: '450',
      remaining: '50',
      spent: '400',
      reserved: '0',
    });
  });

  test('crosses nothing with an overdraft limit, which utilization does not depend on', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 40, overdraftLimit: 50 });
    expect((await updateBudget(ledger, '10'))[0]).toBe('CHANGED');
    expect(await crossings(ledger)).toEqual([]);
  });

  test('exceeds each mark by taking all of what is used, and falls below each with new funds', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const scope = await ledger.makeBudget({ allocated: 1000, spent: 850 });
    await fund(ledger, 0, { operation: 'RESET' });
    expect(await crossings(ledger)).toEqual([0.95, 1].map((mark) => `${scope} ${mark} rising at undefined`));
    await fund(ledger, 10_000);
    expect((await crossings(ledger)).slice(2)).toEqual(
      [0.8, 0.95, 1].map((mark) => `${scope} ${mark} falling at 0.0850`),
    );
  });
});

describe('a new period', () => {
  const STARTS = Date.UTC(2100, 0, 1);
  const DAY_MS = 86_400_000;

  test('emits what the budget falls below, after its rollover and before what follows', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const within = clockAt(ledger, STARTS + 1000);
    await createBudget(within, '100', { starts: String(STARTS), ends: String(STARTS + DAY_MS) });
    const { id } = await within.hold({ amount: 96, ttlMs: 60_000 });
    await within.commit(id, 96);
    await clockAt(ledger, STARTS + DAY_MS).hold({ amount: 85, ttlMs: 60_000 });
    expect(await crossed(ledger)).toEqual([...rising(0.8, 0.95), ...falling(0.8, 0.95), ...rising(0.8)]);
    const { events } = await assertInvariants(ledger);
    const rollover = events.findIndex(({ fields }) => fields['ty'] === 'budget.reset_spent');
    expect(events[rollover + 1]?.fields).toMatchObject({
      ty: 'budget.threshold_crossed',
      ac: 'system',
      threshold: '0.8',
      utilization: '0.0000',
    });
  });

  test.each([
    ['with a smaller allocation for what is held rises above marks', 1000, 100, 90, rising(0.8)],
    ['in which the same is held keeps within the same marks', 100, 100, 90, []],
  ])('%s', async (_what, before, after, held, expected) => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const within = clockAt(ledger, STARTS + 1000);
    await createBudget(within, String(before), { starts: String(STARTS), ends: String(STARTS + DAY_MS) });
    await within.hold({ amount: held, ttlMs: 2 * DAY_MS });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'period_allocated', after);
    const earlier = await crossed(ledger);
    await clockAt(ledger, STARTS + DAY_MS).hold({ amount: 1, ttlMs: 60_000 });
    expect((await crossed(ledger)).slice(earlier.length)).toEqual(expected);
  });
});

describe('a budget whose utilization is unknown', () => {
  test.each(['allocated', 'debt'])(
    'because of a damaged %s gets back what expires, and crosses no mark',
    async (figure) => {
      const ledger = await newLedger();
      const scope = await ledger.makeBudget({ allocated: 100 });
      const { id } = await ledger.hold({ amount: 90 });
      await ledger.makeOverdue(id);
      const key = budgetKey(ledger.tag, 'TOKENS', scope);
      await ledger.redis.hset(key, figure, 'many');
      expect((await ledger.expirePage([id])).slice(2, 4)).toEqual(['EXPIRED', ledger.tenant]);
      expect(await ledger.redis.hmget(key, 'remaining', 'reserved', figure)).toEqual(['100', '0', 'many']);
      await ledger.redis.hset(key, figure, figure === 'debt' ? 0 : 100);
      expect(await crossings(ledger)).toEqual([`${scope} 0.8 rising at 0.9000`]);
    },
  );
});

describe('the marks', () => {
  test("are the tenant's where its subscriptions ask for others", async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ status: 'ACTIVE', th: '0.5,0.8' });
    const scope = await ledger.makeBudget({ allocated: 100 });
    await ledger.hold({ amount: 50 });
    const { id } = await ledger.hold({ amount: 50 });
    expect(await crossings(ledger)).toEqual([
      `${scope} 0.5 rising at 0.5000`,
      `${scope} 0.8 rising at 1.0000`,
    ]);
    await ledger.makeOverdue(id);
    await ledger.expire(id);
    expect((await crossings(ledger)).slice(2)).toEqual([`${scope} 0.8 falling at 0.5000`]);
  });

  test('can be amounts, which are compared with what is spent and held of budgets in their unit', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({
      status: 'ACTIVE',
      th: '0.5,CREDITS:10,TOKENS:300,TOKENS:9007199254740991,TOKENS:x',
    });
    const scope = await ledger.makeBudget({ allocated: 1000, spent: 250 });
    const { id } = await ledger.hold({ amount: 49 });
    expect(await amountCrossings(ledger)).toEqual([]);
    await ledger.hold({ amount: 201 });
    expect(await amountCrossings(ledger)).toEqual([`${scope} 300 rising at 0.5000`]);
    expect(await crossings(ledger)).toContain(`${scope} 0.5 rising at 0.5000`);
    await ledger.commit(id, 49);
    await fund(ledger, 100_000, { operation: 'RESET' });
    expect(await amountCrossings(ledger)).toHaveLength(1);
    await fund(ledger, 100_000, { operation: 'RESET_SPENT', spent: '10' });
    expect((await amountCrossings(ledger)).slice(1)).toEqual([`${scope} 300 falling at 0.0021`]);
  });

  test('do not apply to a budget of nothing of which nothing is used, whatever debt it takes', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 0, overdraftLimit: 100 });
    const { id } = await ledger.hold({ amount: 0, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect((await ledger.commit(id, 50))[0]).toBe('COMMITTED');
    expect(await crossings(ledger)).toEqual([]);
  });
});
