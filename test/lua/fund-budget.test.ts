import { describe, expect, test } from '@jest/globals';
import { idempotencyKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { fund, type FundOptions } from '../support/governance-client.js';
import { IDEMPOTENCY_TTL_MS, TRACE, type Amount, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const MAX = 9223372036854775807n;
const newLedger = useLedger();

async function refused(ledger: LedgerClient, amount: Amount, options?: FundOptions): Promise<Reply> {
  const before = await snapshot(ledger);
  const reply = await fund(ledger, amount, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

async function eventTypes(ledger: LedgerClient): Promise<(string | undefined)[]> {
  return (await assertInvariants(ledger)).events.map(({ fields: { ty, threshold, direction } }) =>
    threshold === undefined ? ty : `${ty} ${threshold} ${direction}`,
  );
}

describe('a credit', () => {
  test('adds to allocated and remaining, and its event has both states', async () => {
    shows('fundBudget');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 40 });
    expect((await fund(ledger, 5, { reason: 'gift' })).slice(0, 10)).toEqual([
      'FUNDED',
      'fresh',
      '100',
      '105',
      '60',
      '65',
      '0',
      '0',
      '40',
      '40',
    ]);
    const { events } = await assertInvariants(ledger);
    expect(events).toHaveLength(1);
    expect(events[0]?.fields).toMatchObject({
      ty: 'budget.funded',
      tn: ledger.tenant,
      sc: ledger.scope(),
      ac: 'api_key',
      ki: 'key_1',
      rq: 'req_fund',
      tr: TRACE,
      operation: 'CREDIT',
      previous_allocated: '100',
      new_allocated: '105',
      previous_remaining: '60',
      new_remaining: '65',
      reason: 'gift',
      new_status: 'ACTIVE',
    });
  });

  test.each<[string, Amount, string]>([
    ['less than the debt', 20, '-10,0,120,120,10,50,0'],
    ['exactly the debt', 30, '0,0,130,130,0,50,0'],
    ['more than the debt', 100, '70,0,130,200,0,50,0'],
    ['nothing', 0, '-30,0,100,100,30,50,0'],
  ])('of %s pays debt before anything is free', async (_what, amount, figures) => {
    shows('funding repays debt');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 30, overdraftLimit: 50 });
    await fund(ledger, amount);
    expect(await ledger.figures()).toBe(figures);
    await assertInvariants(ledger);
  });

  test('clears is_over_limit after a capped charge, and emits that the scope is within its limit again', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, isOverLimit: true });
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('OVERDRAFT_LIMIT_EXCEEDED');
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('10,0,100,110,0,0,0');
    expect(await eventTypes(ledger)).toEqual([
      'reservation.denied',
      'budget.funded',
      'budget.over_limit_exited',
      'budget.threshold_crossed 0.95 falling',
      'budget.threshold_crossed 1 falling',
    ]);
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
  });

  test('leaves a scope over its limit until its debt is within it', async () => {
    shows('over limit until repaid');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 30, overdraftLimit: 10 });
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('-20,0,110,110,20,10,1');
    expect(await eventTypes(ledger)).toEqual(['budget.funded']);
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('-10,0,120,120,10,10,0');
    expect(await eventTypes(ledger)).toEqual(['budget.funded', 'budget.funded', 'budget.over_limit_exited']);
  });

  test('of 0 on a scope without funds keeps its mark', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, isOverLimit: true });
    await fund(ledger, 0);
    expect(await ledger.figures()).toBe('0,0,100,100,0,0,1');
    expect(await eventTypes(ledger)).toEqual(['budget.funded']);
  });

  test('reaches the largest int64 and is refused beyond it, whichever figure would exceed it', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: MAX - 1n });
    expect(await refused(ledger, 2)).toEqual(['INT64_OVERFLOW']);
    expect((await fund(ledger, 1))[1]).toBe('fresh');
    expect(await ledger.figures()).toBe(`${MAX},0,0,${MAX},0,0,0`);
    expect(await refused(ledger, MAX)).toEqual(['INT64_OVERFLOW']);
  });

  test('replays its first reply before any guard, and changes nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    await ledger.makeBudget();
    const first = await fund(ledger, 5, { key: 'k', fingerprint: 'f' });
    await ledger.makeTenant({ status: 'CLOSED' });
    await ledger.makeBudget({ allocated: 1, status: 'FROZEN' });
    expect(await refused(ledger, 5, { key: 'k', fingerprint: 'f' })).toEqual([
      'FUNDED',
      'replay',
      ...first.slice(2),
    ]);
    expect(await refused(ledger, 5, { key: 'k', fingerprint: 'g' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    const record = idempotencyKey.fund(ledger.tag, 'TOKENS', ledger.scope(), 'k');
    expect(await ledger.redis.pttl(record)).toBeGreaterThan(IDEMPOTENCY_TTL_MS - 60_000);
  });

  test.each(['remaining', 'debt', 'overdraft_limit', 'status'])(
    'on a record without its %s is an error and changes no byte',
    async (field) => {
      const ledger = await newLedger();
      await ledger.makeBudget();
      await ledger.redis.hdel(ledger.budgetKeyOf(), field);
      const before = await snapshot(ledger);
      await expect(fund(ledger, 5)).rejects.toThrow('corrupt budget record');
      expect(await snapshot(ledger)).toEqual(before);
    },
  );
});

describe('what each operation does to a ledger (remaining, reserved, spent, allocated, debt, limit, over limit)', () => {
  const START = { allocated: 100, spent: 20, debt: 30, overdraftLimit: 50 } as const;

  test.each<[string, FundOptions & { amount: Amount }, string, string[]]>([
    [
      'a debit takes from allocated and remaining',
      { operation: 'DEBIT', amount: 40 },
      '0,10,20,60,30,50,0',
      ['budget.debited', 'budget.exhausted'],
    ],
    [
      'a reset sets allocated and keeps the rest',
      { operation: 'RESET', amount: 500 },
      '440,10,20,500,30,50,0',
      ['budget.reset'],
    ],
    [
      'a reset may leave a negative amount',
      { operation: 'RESET', amount: 10 },
      '-50,10,20,10,30,50,0',
      [
        'budget.reset',
        'budget.exhausted',
        ...[0.8, 0.95, 1].map((mark) => `budget.threshold_crossed ${mark} rising`),
      ],
    ],
    [
      'a new period starts without spending, and keeps holds and debt',
      { operation: 'RESET_SPENT', amount: 200 },
      '160,10,0,200,30,50,0',
      ['budget.reset_spent'],
    ],
    [
      'a new period starts with the spending given',
      { operation: 'RESET_SPENT', amount: 200, spent: 25 },
      '135,10,25,200,30,50,0',
      ['budget.reset_spent'],
    ],
    [
      'repaid debt becomes free',
      { operation: 'REPAY_DEBT', amount: 10 },
      '50,10,20,100,20,50,0',
      ['budget.debt_repaid'],
    ],
    [
      'what debt does not take is added as funds',
      { operation: 'REPAY_DEBT', amount: 40 },
      '80,10,20,110,0,50,0',
      ['budget.debt_repaid'],
    ],
    [
      'spent is ignored by operations that do not set it',
      { operation: 'RESET', amount: 100, spent: 7 },
      '40,10,20,100,30,50,0',
      ['budget.reset'],
    ],
  ])('%s', async (_what, { amount, ...options }, figures, events) => {
    shows('funding operations');
    const ledger = await newLedger();
    await ledger.makeBudget(START);
    await ledger.hold({ amount: 10 });
    await fund(ledger, amount, options);
    expect(await ledger.figures()).toBe(figures);
    expect(await eventTypes(ledger)).toEqual(events);
  });

  test('a debit of more than remains is refused and changes no byte', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 60 });
    expect(await refused(ledger, 41, { operation: 'DEBIT', key: 'k', fingerprint: 'f' })).toEqual([
      'BUDGET_EXCEEDED',
    ]);
    expect((await fund(ledger, 40, { operation: 'DEBIT' }))[0]).toBe('FUNDED');
  });

  test('repaying debt down to the limit lets the scope leave its over-limit state, and says so', async () => {
    shows('mark ends with debt');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 30, overdraftLimit: 10, isOverLimit: true });
    await fund(ledger, 19, { operation: 'REPAY_DEBT' });
    expect(await ledger.figures()).toBe('-11,0,100,100,11,10,1');
    await fund(ledger, 1, { operation: 'REPAY_DEBT' });
    expect(await ledger.figures()).toBe('-10,0,100,100,10,10,0');
    expect(await eventTypes(ledger)).toEqual([
      'budget.debt_repaid',
      'budget.debt_repaid',
      'budget.over_limit_exited',
    ]);
  });

  test("a new period's event says whether its spending was given, even if it is 0", async () => {
    shows('spent given');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 60 });
    await fund(ledger, 100, { operation: 'RESET_SPENT' });
    await fund(ledger, 100, { operation: 'RESET_SPENT', spent: 0 });
    const { events } = await assertInvariants(ledger);
    expect(
      events.map(({ fields }) => [
        fields['spent_override_provided'],
        fields['previous_spent'],
        fields['new_spent'],
      ]),
    ).toEqual([
      ['0', '60', '0'],
      ['1', '0', '0'],
    ]);
  });

  test('a figure that would exceed int64 is refused and changes no byte', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 20, debt: 10, overdraftLimit: 10 });
    expect(await refused(ledger, MAX, { operation: 'REPAY_DEBT' })).toEqual(['INT64_OVERFLOW']);
    await ledger.makeBudget({ allocated: 100, reserved: 90, debt: 10, overdraftLimit: 10 });
    expect(await refused(ledger, 0, { operation: 'RESET_SPENT', spent: MAX })).toEqual(['INT64_OVERFLOW']);
    expect((await fund(ledger, MAX, { operation: 'RESET' }))[0]).toBe('FUNDED');
    expect(await ledger.figures()).toBe(`${MAX - 100n},90,0,${MAX},10,10,0`);
  });
});
