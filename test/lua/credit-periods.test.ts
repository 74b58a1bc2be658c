import { describe, expect, test } from '@jest/globals';
import { debit } from '../support/admission-client.js';
import { became, granted } from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund } from '../support/governance-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
const T = Date.UTC(2100, 0, 2);

async function withBudget(allocated: string, period: object): Promise<LedgerClient> {
  const ledger = clockAt(await newLedger(), T);
  await ledger.makeTenant();
  expect((await createBudget(ledger, allocated, period))[0]).toBe('CREATED');
  return ledger;
}

const at = (ledger: LedgerClient, ms: number): LedgerClient => clockAt(ledger, T + ms);

describe('credits beside periods', () => {
  const DAY = { starts: String(T - 1000), ends: String(T + 1000) };

  test.each([
    ['NONE', '100,0,0,100,0,0,0', '0,0,100'],
    ['CARRY_FORWARD', '190,0,0,190,0,0,0', ''],
    ['CAP_AT_ALLOCATED', '190,0,0,190,0,0,0', ''],
  ])('a credit that ends in the ms of a rollover is gone, under %s', async (policy, figures) => {
    const ledger = await withBudget('100', { ...DAY, ends: String(T + DAY_MS), policy });
    const id = await granted(ledger, 50, { ends: T + DAY_MS });
    await debit(ledger, { amount: 60 });
    expect(await became(ledger, id)).toEqual(['EXHAUSTED 0 0 50 0 0']);
    const other = await granted(ledger, 30, { ends: T + DAY_MS });
    const then = at(ledger, DAY_MS);
    await fund(then, 0);
    expect(await became(then, other)).toEqual(['ENDED 0 0 0 30 0']);
    expect(await then.figures()).toBe(figures);
  });

  test.each([
    ['NONE', '140,0,0,140,0,0,0'],
    ['CARRY_FORWARD', '240,0,0,240,0,0,0'],
    ['CAP_AT_ALLOCATED', '240,0,0,240,0,0,0'],
  ])('credits live on, and are carried over once, under %s', async (policy, figures) => {
    const ledger = await withBudget('100', { ...DAY, ends: String(T + DAY_MS), policy });
    const id = await granted(ledger, 50);
    await debit(ledger, { amount: 10 });
    await fund(at(ledger, DAY_MS), 0);
    expect(await became(at(ledger, DAY_MS), id)).toEqual(['ACTIVE 40 0 10 0 0']);
    expect(await ledger.figures()).toBe(figures);
    await assertInvariants(ledger);
  });

  test('a credit that ends with a period ends once, even if no next one is planned', async () => {
    const ledger = await withBudget('100', { ...DAY, ends: String(T + DAY_MS) });
    const id = await granted(ledger, 50, { ends: T + DAY_MS });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'recurrence', 'a rule', 'boundaries', '');
    const then = at(ledger, DAY_MS + 500);
    await fund(then, 0);
    expect(await became(then, id)).toEqual(['ENDED 0 0 0 50 0']);
    expect(await then.figures()).toBe('100,0,0,100,0,0,0');
  });

  test('a RESET sets the periods to come without credits, and is refused below what these have', async () => {
    const ledger = await withBudget('100', { ...DAY, ends: String(T + DAY_MS) });
    await granted(ledger, 50);
    expect((await fund(ledger, 49, { operation: 'RESET' }))[0]).toBe('BUDGET_EXCEEDED');
    expect((await fund(ledger, 49, { operation: 'RESET_SPENT' }))[0]).toBe('BUDGET_EXCEEDED');
    expect((await fund(ledger, 80, { operation: 'RESET' }))[0]).toBe('FUNDED');
    await fund(at(ledger, DAY_MS), 0);
    expect(await ledger.figures()).toBe('80,0,0,80,0,0,0');
  });
});
