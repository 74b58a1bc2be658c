import { describe, expect, test } from '@jest/globals';
import { debit } from '../support/admission-client.js';
import { became, granted } from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund, setPeriod, updateBudget } from '../support/governance-client.js';
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

  /** A budget of 100 in which a credit has paid 50 of the 60 that were spent. */
  const spentOfCredit = async (period: object): Promise<{ ledger: LedgerClient; debited: string }> => {
    const ledger = await withBudget('100', period);
    await granted(ledger, 50);
    const { id } = await ledger.hold({ amount: 60, ttlMs: 100_000 });
    await ledger.commit(id, 60);
    return { ledger, debited: id };
  };
  const nextPeriod = async (ledger: LedgerClient): Promise<string> => {
    await fund(at(ledger, DAY_MS), 0);
    return ledger.figures();
  };
  const TODAY = { ...DAY, ends: String(T + DAY_MS) };
  const paid = (ledger: LedgerClient): Promise<string | null> =>
    ledger.redis.hget(ledger.budgetKeyOf(), 'paid_by_credits');

  test('what a credit has paid is no part of the periods to come after a RESET, and is after a RESET_SPENT', async () => {
    const { ledger } = await spentOfCredit(TODAY);
    expect(await paid(ledger)).toBe('50');
    await fund(ledger, 160, { operation: 'RESET' });
    expect(await nextPeriod(ledger)).toBe('110,0,0,110,0,0,0');
    expect(await paid(ledger)).toBeNull();

    const { ledger: low } = await spentOfCredit(TODAY);
    await fund(low, 40, { operation: 'RESET' });
    expect(await nextPeriod(low)).toBe('0,0,0,0,0,0,0');

    const { ledger: other } = await spentOfCredit(TODAY);
    await fund(other, 160, { operation: 'RESET_SPENT', spent: 60 });
    expect(await paid(other)).toBeNull();
    expect(await nextPeriod(other)).toBe('160,0,0,160,0,0,0');
  });

  test('a first period gives the base without what a credit has paid, and what repaid debt counts as paid', async () => {
    const { ledger } = await spentOfCredit({});
    expect((await setPeriod(ledger, String(T - 1000), String(T + DAY_MS)))[0]).toBe('CHANGED');
    expect(await nextPeriod(ledger)).toBe('100,0,0,100,0,0,0');

    const indebted = await withBudget('10', {});
    await updateBudget(indebted, '50');
    await debit(indebted, { amount: 30, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect(await indebted.figures()).toMatch(/^-20,0,10,10,20/);
    await granted(indebted, 25);
    expect(await paid(indebted)).toBe('20');
    expect((await setPeriod(indebted, String(T - 1000), String(T + DAY_MS)))[0]).toBe('CHANGED');
    expect(await nextPeriod(indebted)).toMatch(/^15,0,0,15,0/);
  });

  test('a refund takes back what credits have paid first, and never more than is spent', async () => {
    const { ledger, debited } = await spentOfCredit(TODAY);
    expect((await ledger.refund(debited, 20))[0]).toBe('REFUNDED');
    // The consumed credit gets nothing: it is the base's.
    expect(await paid(ledger)).toBe('30');
    expect((await ledger.refund(debited, 35))[0]).toBe('REFUNDED');
    expect(await paid(ledger)).toBe('0');
    expect(await ledger.figures()).toBe('145,0,5,150,0,0,0');

    const burning = await withBudget('100', TODAY);
    const id = await granted(burning, 50);
    await debit(burning, { amount: 40 });
    expect(await paid(burning)).toBe('40');
    const { id: held } = await burning.hold({ amount: 5, ttlMs: 1000 });
    await burning.commit(held, 5);
    expect((await burning.refund(held, 5))[0]).toBe('REFUNDED');
    expect(await became(burning, id)).toEqual(['ACTIVE 10 0 40 0 0']);
    expect(await paid(burning)).toBe('40');
    await fund(burning, 150, { operation: 'RESET' });
    expect(await nextPeriod(burning)).toBe('110,0,0,110,0,0,0');
    await assertInvariants(burning);
  });

  test('a refund of what no credit paid leaves no more paid by credits than is spent', async () => {
    const ledger = await withBudget('10', {});
    await updateBudget(ledger, '50');
    const { id } = await ledger.hold({ amount: 5, ttlMs: 100_000, policy: 'ALLOW_WITH_OVERDRAFT' });
    await ledger.commit(id, 30);
    await granted(ledger, 25);
    expect(await paid(ledger)).toBe('20');
    expect((await ledger.refund(id, 30))[0]).toBe('REFUNDED');
    expect(await ledger.figures()).toMatch(/^35,0,0,35,0/);
    expect(await paid(ledger)).toBe('0');
    await assertInvariants(ledger);
  });

  test('refunds in parts of a charge that made debt end with nothing paid by its credits', async () => {
    const ledger = await withBudget('500', {});
    await updateBudget(ledger, '100');
    await debit(ledger, { amount: 500 });
    await granted(ledger, 30);
    const { id } = await ledger.hold({ amount: 5, ttlMs: 100_000, policy: 'ALLOW_WITH_OVERDRAFT' });
    await ledger.commit(id, 100);
    expect(await paid(ledger)).toBe('30');
    expect((await ledger.refund(id, 50))[0]).toBe('REFUNDED');
    expect((await ledger.refund(id, 50))[0]).toBe('REFUNDED');
    expect(await ledger.figures()).toMatch(/^30,0,500,530,0/);
    expect(await paid(ledger)).toBe('0');
    await assertInvariants(ledger);
  });
});
