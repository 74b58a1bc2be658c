import { describe, expect, test } from '@jest/globals';
import { creditIndexKey, creditKey } from '../../src/redis/keyspace.js';
import { debit } from '../support/admission-client.js';
import {
  became,
  creditsOf,
  grant,
  granted,
  newCreditId,
  updateCredit,
  voidCredit,
} from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund, rollOver, setFrozen } from '../support/governance-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const MAX = '9223372036854775807';
const DAY_MS = 86_400_000;
const T = Date.UTC(2100, 0, 2);

/** A tenant with a budget of its own allocation, seen at T. */
async function withBudget(allocated = '100'): Promise<LedgerClient> {
  const ledger = clockAt(await newLedger(), T);
  await ledger.makeTenant();
  expect((await createBudget(ledger, allocated))[0]).toBe('CREATED');
  return ledger;
}

const at = (ledger: LedgerClient, ms: number): LedgerClient => clockAt(ledger, T + ms);
const hold = async (ledger: LedgerClient, amount: number | string): Promise<string> =>
  (await ledger.hold({ amount, ttlMs: DAY_MS })).id;

const told = async (ledger: LedgerClient): Promise<string[]> =>
  (await assertInvariants(ledger)).events
    .filter(({ fields }) => fields['ty']?.startsWith('custom.credit.'))
    .map(({ fields }) => fields['ty'] as string);

/** The job for idle budgets. Returns how much has happened to credits since its last run, and the damaged budgets. */
async function sweep(ledger: LedgerClient): Promise<{ happened: string; late: string; damaged: string[] }> {
  const reply = await rollOver(ledger);
  const [, , , , happened = '', late = '', , , count = '0'] = reply;
  return { happened, late, damaged: reply.slice(9, 9 + 2 * Number(count)) };
}

describe('the order in which credits burn', () => {
  test('is priority, the soonest end, the start and the id; the base comes last', async () => {
    const ledger = await withBudget('100');
    const names = { last: { priority: 100 }, never: {}, late: { ends: T + 2000 }, soon: { ends: T + 1000 } };
    const ids: Record<string, string> = {};
    for (const [name, options] of Object.entries(names)) {
      ids[name] = await granted(ledger, 10, { name, ...options });
    }
    ids['first'] = await granted(ledger, 10, { name: 'first', priority: 0 });
    expect((await creditsOf(ledger)).filter(({ left }) => left === 10n)).toHaveLength(5);
    const id = await hold(ledger, 60);
    // What is held has consumed nothing.
    expect((await creditsOf(ledger)).map(({ consumed }) => consumed)).toEqual([0n, 0n, 0n, 0n, 0n]);
    await ledger.commit(id, 35);
    const left = Object.fromEntries((await creditsOf(ledger)).map((credit) => [credit.id, credit.left]));
    expect(['first', 'soon', 'late', 'never', 'last'].map((name) => left[ids[name] as string])).toEqual([
      ...[0n, 0n, 0n, 5n, 10n],
    ]);
    expect(await ledger.figures()).toBe('115,0,35,150,0,0,0');
    await debit(ledger, { amount: 20 });
    expect((await creditsOf(ledger)).map(({ left }) => left)).toEqual([0n, 0n, 0n, 0n, 0n]);
    expect(await ledger.figures()).toBe('95,0,55,150,0,0,0');
    await assertInvariants(ledger);
  });

  test('goes by start, then by id, where priorities and ends are equal', async () => {
    const ledger = await withBudget('0');
    const [b, a] = [newCreditId(ledger), newCreditId(ledger)].sort().reverse() as [string, string];
    await granted(ledger, 10, { id: b });
    await granted(ledger, 10, { id: a });
    const later = at(ledger, 5);
    const c = await granted(later, 10);
    await debit(later, { amount: 15 });
    expect(await became(later, a, b, c)).toEqual([
      ...['EXHAUSTED 0 0 10 0 0', 'ACTIVE 5 0 5 0 0', 'ACTIVE 10 0 0 0 0'],
    ]);
  });

  test('a credit that has not started pays nothing', async () => {
    const ledger = await withBudget('10');
    const id = await granted(ledger, 50, { starts: T + 10 });
    expect((await ledger.reserve({ amount: 11 }))[0]).toBe('BUDGET_EXCEEDED');
    await debit(ledger, { amount: 5 });
    expect(await became(ledger, id)).toEqual(['SCHEDULED 50 0 0 0 0']);
    expect(await ledger.figures()).toBe('5,0,5,10,0,0,0');
  });

  test('a charge names who paid, at each budget', async () => {
    const ledger = await withBudget('100');
    const leaf = await ledger.makeBudget({ scope: ledger.scope({ agent: 'bot' }), allocated: 100 });
    const [one, two] = [await granted(ledger, 30), await granted(ledger, 10, { scope: leaf })];
    const { id } = await ledger.hold({ amount: 50, subject: { agent: 'bot' } });
    await ledger.commit(id, 40);
    await debit(ledger, { amount: 5 });
    const { holds, events } = await readLedger(ledger);
    expect(holds.get(id)?.['cr']).toBe(`${one}:30|${two}:10`);
    expect(events.find(({ fields }) => fields['ty'] === 'custom.direct_debit.applied')?.fields['cr']).toBe(
      undefined,
    );
  });
});

describe('the end of a credit', () => {
  test('takes away what nothing live needs', async () => {
    const ledger = await withBudget('100');
    const id = await granted(ledger, 50, { ends: T + 10 });
    const before = at(ledger, 9);
    await fund(before, 0);
    expect(await became(before, id)).toEqual(['ACTIVE 50 0 0 0 0']);
    const then = at(ledger, 10);
    // Whoever reads the budget sees its end, even before a script has written it.
    expect((await creditsOf(then))[0]).toMatchObject({ left: 0n });
    await fund(then, 0);
    expect(await became(then, id)).toEqual(['ENDED 0 0 0 50 0']);
    expect(await then.figures()).toBe('100,0,0,100,0,0,0');
    expect(await told(ledger)).toEqual([
      ...['custom.credit.granted', 'custom.credit.started', 'custom.credit.ended'],
    ]);
  });

  test('leaves what live holds may need, for these alone, until they end', async () => {
    const ledger = await withBudget('20');
    const id = await granted(ledger, 100, { ends: T + 10 });
    const early = await hold(ledger, 60);
    const then = at(ledger, 10);
    // A hold that is made in the ms of the end is made after it.
    expect((await then.reserve({ amount: 21 }))[0]).toBe('BUDGET_EXCEEDED');
    const late = await hold(then, 20);
    expect(await became(then, id)).toEqual(['ENDED 0 60 0 40 0']);
    expect(await then.figures()).toBe('0,80,0,80,0,0,0');
    await then.commit(late, 20);
    expect(await became(then, id)).toEqual(['ENDED 0 60 0 40 0']);
    await then.commit(early, 45);
    expect(await became(then, id)).toEqual(['ENDED 0 0 45 55 0']);
    expect(await then.figures()).toBe('0,0,65,65,0,0,0');
    await assertInvariants(ledger);
  });

  test('pins neither what credits before it back nor what older pins do', async () => {
    const ledger = await withBudget('0');
    const [first, early, late] = [
      await granted(ledger, 30, { priority: 0 }),
      await granted(ledger, 50, { ends: T + 10 }),
      await granted(ledger, 50, { ends: T + 20 }),
    ];
    const id = await hold(ledger, 100);
    await fund(at(ledger, 20), 0);
    const then = at(ledger, 20);
    expect(await became(then, first, early, late)).toEqual([
      ...['ACTIVE 30 0 0 0 0', 'ENDED 0 50 0 0 0', 'ENDED 0 20 0 30 0'],
    ]);
    await then.commit(id, 100);
    expect(await became(then, first, early, late)).toEqual([
      ...['EXHAUSTED 0 0 30 0 0', 'ENDED 0 0 50 0 0', 'ENDED 0 0 20 30 0'],
    ]);
  });

  test('a pin lapses with the holds that it is for, however much else is held', async () => {
    const ledger = await withBudget('100');
    const id = await granted(ledger, 50, { ends: T + 10, priority: 0 });
    const early = await hold(ledger, 30);
    const then = at(ledger, 10);
    await hold(then, 90);
    expect(await became(then, id)).toEqual(['ENDED 0 30 0 20 0']);
    await then.release(early);
    expect(await became(then, id)).toEqual(['ENDED 0 0 0 50 0']);
    expect(await then.figures()).toBe('10,90,0,100,0,0,0');
  });

  test('clips newer pins by what older ones keep', async () => {
    const ledger = await withBudget('0');
    const [early, late] = [
      await granted(ledger, 30, { ends: T + 10 }),
      await granted(ledger, 50, { ends: T + 20 }),
    ];
    const [one, two] = [await hold(ledger, 30), await hold(ledger, 40)];
    const then = at(ledger, 20);
    await fund(then, 0);
    expect(await became(then, early, late)).toEqual(['ENDED 0 30 0 0 0', 'ENDED 0 40 0 10 0']);
    // 40 are still held, of which the older pin keeps 30.
    await then.release(one);
    expect(await became(then, early, late)).toEqual(['ENDED 0 30 0 0 0', 'ENDED 0 10 0 40 0']);
    expect(await then.figures()).toBe('0,40,0,40,0,0,0');
    await then.commit(two, 40);
    expect(await became(then, early, late)).toEqual(['ENDED 0 0 30 0 0', 'ENDED 0 0 10 40 0']);
  });

  test.each([
    ['release', 'ENDED 0 0 0 100 0'],
    ['expire', 'ENDED 0 0 25 75 0'],
  ])('what a hold pinned lapses or is charged as it ends by %s', async (how, expected) => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 100, { ends: T + 10 });
    const reply = await ledger.hold({ amount: 60, ttlMs: 1000, graceMs: 0, fields: { ce: '25' } });
    // The ms of its deadline is not over; the next one is.
    const then = at(ledger, 1001);
    expect(
      (how === 'release' ? await at(ledger, 500).release(reply.id) : await then.expire(reply.id))[0],
    ).toBe(how === 'release' ? 'RELEASED' : 'CHARGED');
    expect(await became(then, id)).toEqual([expected]);
    await assertInvariants(ledger);
    expect((await readLedger(ledger)).holds.get(reply.id)?.['cr']).toBe(
      how === 'release' ? undefined : `${id}:25`,
    );
  });

  test('in the ms of a commit or an expiry comes first, and the hold keeps its promise', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 100, { ends: T + 1001 });
    const [committed, expired] = [
      await hold(ledger, 30),
      await ledger.hold({ amount: 20, ttlMs: 1000, graceMs: 0, fields: { ce: '20' } }),
    ];
    const then = at(ledger, 1001);
    expect((await then.commit(committed, 30))[0]).toBe('COMMITTED');
    expect(await became(then, id)).toEqual(['ENDED 0 20 30 50 0']);
    expect((await then.expire(expired.id))[0]).toBe('CHARGED');
    expect(await became(then, id)).toEqual(['ENDED 0 0 50 50 0']);
  });

  test('two in one ms: what burns first is pinned first', async () => {
    const ledger = await withBudget('0');
    const [second, first] = [
      await granted(ledger, 50, { ends: T + 10 }),
      await granted(ledger, 50, { ends: T + 10, priority: 0 }),
    ];
    const id = await hold(ledger, 70);
    const then = at(ledger, 10);
    await fund(then, 0);
    expect(await became(then, first, second)).toEqual(['ENDED 0 50 0 0 0', 'ENDED 0 20 0 30 0']);
    await then.commit(id, 60);
    expect(await became(then, first, second)).toEqual(['ENDED 0 0 50 0 0', 'ENDED 0 0 10 40 0']);
    expect(await then.figures()).toBe('0,0,60,60,0,0,0');
  });

  test('a credit that starts in the ms of an end starts after it', async () => {
    const ledger = await withBudget('0');
    const [ending, starting] = [
      await granted(ledger, 50, { ends: T + 10 }),
      await granted(ledger, 50, { starts: T + 10, priority: 0 }),
    ];
    await hold(ledger, 50);
    expect(await became(ledger, ending, starting)).toEqual(['ACTIVE 50 0 0 0 0', 'SCHEDULED 50 0 0 0 0']);
    await fund(at(ledger, 10), 0);
    expect(await became(at(ledger, 10), ending, starting)).toEqual(['ENDED 0 50 0 0 0', 'ACTIVE 50 0 0 0 0']);
  });

  test('a hold that is made after the clock went back draws on no pin', async () => {
    const ledger = await withBudget('10');
    const id = await granted(ledger, 50, { ends: T + 10 });
    const early = await hold(ledger, 40);
    await fund(at(ledger, 10), 0);
    const back = at(ledger, 5);
    const late = await hold(back, 10);
    expect((await readLedger(ledger)).holds.get(late)?.['ca']).toBe(String(T + 10));
    await back.commit(late, 10);
    expect(await became(back, id)).toEqual(['ENDED 0 40 0 10 0']);
    await debit(back, { amount: 1, policy: 'REJECT' });
    expect((await back.commit(early, 40))[0]).toBe('COMMITTED');
    expect(await became(back, id)).toEqual(['ENDED 0 0 40 10 0']);
  });

  test('a notice comes once, some time before', async () => {
    const ledger = await withBudget('0');
    await granted(ledger, 50, { ends: T + 1000, notifyBeforeMs: 400 });
    await fund(at(ledger, 599), 0);
    expect(await told(ledger)).not.toContain('custom.credit.ending');
    await fund(at(ledger, 600), 0);
    await fund(at(ledger, 700), 0);
    expect((await told(ledger)).filter((type) => type === 'custom.credit.ending')).toHaveLength(1);
  });
});

describe('funding and debt', () => {
  test('a credit repays debt first, also if it starts later', async () => {
    const ledger = clockAt(await newLedger(), T);
    await ledger.makeTenant();
    await ledger.makeBudget({ allocated: 10, debt: 40, overdraftLimit: 100 });
    const [now, later] = [await granted(ledger, 30), await granted(ledger, 30, { starts: T + 10 })];
    expect(await became(ledger, now)).toEqual(['EXHAUSTED 0 0 30 0 0']);
    expect(await ledger.figures()).toBe('0,0,30,40,10,100,0');
    await fund(at(ledger, 10), 0);
    expect(await became(at(ledger, 10), later)).toEqual(['ACTIVE 20 0 10 0 0']);
    expect(await ledger.figures()).toBe('30,0,40,70,0,100,0');
  });

  test('CREDIT and DEBIT change the base alone', async () => {
    const ledger = await withBudget('20');
    const id = await granted(ledger, 50);
    expect((await fund(ledger, 21, { operation: 'DEBIT' }))[0]).toBe('BUDGET_EXCEEDED');
    expect((await fund(ledger, 20, { operation: 'DEBIT' }))[0]).toBe('FUNDED');
    await fund(ledger, 5);
    expect(await became(ledger, id)).toEqual(['ACTIVE 50 0 0 0 0']);
    expect(await ledger.figures()).toBe('55,0,0,55,0,0,0');
  });

  test('a void leaves what live holds need, and can be repeated', async () => {
    const ledger = await withBudget('0');
    const [id, coming] = [await granted(ledger, 50), await granted(ledger, 5, { starts: T + 10 })];
    const held = await hold(ledger, 20);
    expect((await voidCredit(ledger, id))[0]).toBe('CHANGED');
    expect((await voidCredit(ledger, id))[0]).toBe('CHANGED');
    expect((await voidCredit(ledger, coming))[0]).toBe('CHANGED');
    expect(await became(ledger, id, coming)).toEqual(['VOIDED 0 20 0 0 30', 'VOIDED 0 0 0 0 5']);
    await ledger.release(held);
    expect(await became(ledger, id)).toEqual(['VOIDED 0 0 0 20 30']);
    expect(await ledger.figures()).toBe('0,0,0,0,0,0,0');
    expect(await voidCredit(ledger, newCreditId(ledger))).toEqual(['NOT_FOUND']);
  });

  test('a void in the ms in which a hold was made keeps the promise of the hold', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 50);
    const held = await hold(ledger, 20);
    await voidCredit(ledger, id);
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('BUDGET_EXCEEDED');
    await ledger.commit(held, 20);
    expect(await became(ledger, id)).toEqual(['VOIDED 0 0 20 0 30']);
    expect(await ledger.figures()).toBe('0,0,20,20,0,0,0');
  });

  test('a void after the clock went back keeps the promises of holds, too', async () => {
    const ledger = await withBudget('10');
    const [first, second] = [await granted(ledger, 50, { ends: T + 10 }), await granted(ledger, 30)];
    await hold(ledger, 40);
    await fund(at(ledger, 10), 0);
    const back = at(ledger, 5);
    const late = await hold(back, 40);
    await voidCredit(back, second);
    await back.commit(late, 40);
    expect(await became(back, first, second)).toEqual(['ENDED 0 40 0 10 0', 'VOIDED 0 0 30 0 0']);
    expect(await back.figures()).toBe('0,40,40,80,0,0,0');
  });

  test('the end of a credit can be moved while it lives', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 50, { ends: T + 10 });
    expect((await updateCredit(ledger, id, { ends: T + 100, name: 'longer' }))[0]).toBe('CHANGED');
    await fund(at(ledger, 50), 0);
    expect(await became(at(ledger, 50), id)).toEqual(['ACTIVE 50 0 0 0 0']);
    expect(await updateCredit(at(ledger, 50), id, { ends: T + 50 })).toEqual(['CREDIT_ENDED']);
    await fund(at(ledger, 100), 0);
    expect(await updateCredit(at(ledger, 100), id, { ends: 'none' })).toEqual(['CREDIT_FINALIZED', 'ENDED']);
  });
});

describe('refunds', () => {
  test('go to the credit that paid last, as long as it burns', async () => {
    const ledger = await withBudget('100');
    const first = await granted(ledger, 60, { priority: 0, ends: T + 10 });
    const second = await granted(ledger, 60);
    const early = await hold(ledger, 100);
    const then = at(ledger, 10);
    // The pin of the first pays 40, because the second backs no more than 60 of it.
    await then.commit(early, 80);
    expect(await became(then, first, second)).toEqual(['ENDED 0 0 60 0 0', 'ACTIVE 40 0 20 0 0']);
    await then.refund(early, 15);
    expect(await became(then, second)).toEqual(['ACTIVE 55 0 5 0 0']);
    await then.refund(early, 25);
    expect(await became(then, first, second)).toEqual(['ENDED 0 0 60 0 0', 'ACTIVE 60 0 0 0 0']);
    expect(await then.figures()).toBe('180,0,40,220,0,0,0');
    const { journal } = await readLedger(ledger);
    expect(journal.map(({ cr }) => cr)).toEqual([undefined, `${second}:-15`, `${second}:-5`]);
  });

  test('of a consumed credit go to the base', async () => {
    const ledger = await withBudget('100');
    const id = await granted(ledger, 30);
    const held = await hold(ledger, 50);
    await ledger.commit(held, 50);
    await ledger.refund(held, 40);
    expect(await became(ledger, id)).toEqual(['EXHAUSTED 0 0 30 0 0']);
    expect(await ledger.figures()).toBe('120,0,10,130,0,0,0');
  });

  test('repay first what a RESET took from the base', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 100);
    const held = await hold(ledger, 50);
    await ledger.commit(held, 50);
    await fund(ledger, 50, { operation: 'RESET' });
    await ledger.refund(held, 50);
    expect(await became(ledger, id)).toEqual(['ACTIVE 50 0 50 0 0']);
    expect((await fund(ledger, 10))[0]).toBe('FUNDED');
    expect(await ledger.figures()).toBe('60,0,0,60,0,0,0');
  });

  test('of an ended credit go to the base', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 50, { ends: T + 10 });
    const held = await hold(ledger, 30);
    await ledger.commit(held, 30);
    const then = at(ledger, 20);
    await then.refund(held, 30);
    expect(await became(then, id)).toEqual(['ENDED 0 0 30 20 0']);
    expect(await then.figures()).toBe('30,0,0,30,0,0,0');
  });
});

describe('bounds and damage', () => {
  test('the 65th credit is refused', async () => {
    const ledger = await withBudget('0');
    for (let count = 0; count < 64; count += 1) {
      await granted(ledger, 1, { priority: count });
    }
    expect(await grant(ledger, 1)).toEqual(['TOO_MANY_CREDITS']);
    await debit(ledger, { amount: 1 });
    expect((await grant(ledger, 1))[0]).toBe('GRANTED');
    await debit(ledger, { amount: 64 });
    expect(await ledger.figures()).toBe('0,0,65,65,0,0,0');
  });

  test('int64: a credit that does not fit is refused, and one that does not fit when it starts lapses', async () => {
    const ledger = await withBudget('10');
    expect(await grant(ledger, MAX)).toEqual(['INT64_OVERFLOW']);
    const big = String(BigInt(MAX) - 10n);
    const id = await granted(ledger, big, { ends: T + 10 });
    const later = await granted(await withBudget('0'), 1);
    expect(later).toMatch(/^crd_/);
    const held = await hold(ledger, MAX);
    await fund(at(ledger, 10), 0);
    expect(await became(at(ledger, 10), id)).toEqual([`ENDED 0 ${big} 0 0 0`]);
    await at(ledger, 10).commit(held, MAX);
    expect(await ledger.figures()).toBe(`0,0,${MAX},${MAX},0,0,0`);

    const other = await withBudget('10');
    const coming = await granted(other, 5, { starts: T + 10 });
    await fund(other, String(BigInt(MAX) - 12n));
    await fund(at(other, 10), 0);
    expect(await became(at(other, 10), coming)).toEqual(['ENDED 0 0 0 5 0']);
    await assertInvariants(other);
  });

  test('an end that is over, or before the start, is refused', async () => {
    const ledger = await withBudget('0');
    expect(await grant(ledger, 1, { ends: T })).toEqual(['CREDIT_ENDED']);
    expect(await grant(ledger, 1, { starts: T + 10, ends: T + 10 })).toEqual(['CREDIT_ENDED']);
  });

  test('the same request is granted once', async () => {
    const ledger = await withBudget('0');
    const first = await grant(ledger, 5, { key: 'k' });
    expect(await grant(ledger, 5, { key: 'k' })).toEqual(['GRANTED', 'replay', ...first.slice(2)]);
    expect(await grant(ledger, 6, { key: 'k' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await ledger.figures()).toBe('5,0,0,5,0,0,0');
  });

  test('a frozen budget gets none, but what it has ends', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 5, { ends: T + 10 });
    await setFrozen(ledger, true);
    expect(await grant(ledger, 5)).toEqual(['BUDGET_FROZEN']);
    expect((await sweep(at(ledger, 10))).happened).toBe('2');
    expect(await became(at(ledger, 10), id)).toEqual(['ENDED 0 0 0 5 0']);
  });

  test('a closed budget keeps its credits as they are', async () => {
    const ledger = await withBudget('0');
    await granted(ledger, 5, { ends: T + 10 });
    const held = await ledger.hold({ amount: 3, ttlMs: 1000, graceMs: 0 });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'status', 'CLOSED');
    expect(await grant(ledger, 5)).toEqual(['BUDGET_CLOSED']);
    await sweep(at(ledger, 10));
    expect(await ledger.redis.zcard(creditIndexKey(ledger.tag))).toBe(0);
    expect((await at(ledger, 1001).expire(held.id))[0]).toBe('EXPIRED');
    expect(await ledger.figures()).toBe('5,0,0,5,0,0,0');
  });

  test('the job lets credits of idle budgets end, and says how late it is', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 5, { ends: T + 10 });
    await sweep(ledger);
    expect(await sweep(at(ledger, 9))).toEqual({ happened: '0', late: '', damaged: [] });
    expect(await sweep(at(ledger, 250))).toEqual({ happened: '1', late: '240', damaged: [] });
    expect(await became(at(ledger, 250), id)).toEqual(['ENDED 0 0 0 5 0']);
  });

  test('a budget whose credits are damaged is told of, and its holds still return', async () => {
    const ledger = await withBudget('100');
    await granted(ledger, 5, { ends: T + 10 });
    const held = await ledger.hold({ amount: 20, ttlMs: 1000, graceMs: 0 });
    await ledger.redis.hset(ledger.budgetKeyOf(), 'credits', '1|crd_xx|');
    expect((await sweep(at(ledger, 9))).damaged).toEqual([]);
    expect((await sweep(at(ledger, 11))).damaged).toEqual([ledger.scope(), 'TOKENS']);
    await expect(at(ledger, 20).reserve({ amount: 1 })).rejects.toThrow('corrupt credits');
    expect((await at(ledger, 1001).expire(held.id))[0]).toBe('EXPIRED');
    expect(await ledger.figures()).toBe('105,0,0,105,0,0,0');
  });

  test.each(['commit', 'release', 'expire', 'debit', 'refund'] as const)(
    'a damaged index of credits ends a %s before it has changed anything',
    async (kind) => {
      const ledger = await withBudget('100');
      const ends = { ends: T + DAY_MS };
      await granted(ledger, 50, ends);
      const done = await hold(ledger, 5);
      await ledger.commit(done, 5);
      const held = await ledger.hold({ amount: 55, ttlMs: 1000, graceMs: 0 });
      await fund(ledger, 1);
      await ledger.redis.set(creditIndexKey(ledger.tag), 'damaged');
      const before = await snapshot(ledger);
      const late = at(ledger, 1001);
      const tried = {
        commit: () => ledger.commit(held.id, 55),
        release: () => ledger.release(held.id),
        expire: () => late.expire(held.id),
        debit: () => debit(ledger, { amount: 46 }),
        refund: () => ledger.refund(done, 5),
      }[kind]();
      await expect(tried).rejects.toThrow('WRONGTYPE');
      expect(await snapshot(ledger)).toEqual(before);
    },
  );

  test('a record is gone 30 days after nothing is left of its credit', async () => {
    const ledger = await withBudget('0');
    const id = await granted(ledger, 5);
    expect(await ledger.redis.pttl(creditKey(ledger.tag, id))).toBe(-1);
    await debit(ledger, { amount: 5 });
    const left = await ledger.redis.pttl(creditKey(ledger.tag, id));
    expect(left).toBeGreaterThan(29 * DAY_MS);
    expect(left).toBeLessThanOrEqual(30 * DAY_MS);
  });

  test('a hold under MANUAL_CLEANUP keeps its pin until an operator ends it', async () => {
    const ledger = await withBudget('0');
    await ledger.makeTenant({ reservation_expiry_policy: 'MANUAL_CLEANUP' });
    const id = await granted(ledger, 50, { ends: T + 10 });
    await ledger.hold({ amount: 30, ttlMs: 1000, graceMs: 0 });
    const then = at(ledger, DAY_MS);
    await fund(then, 0);
    expect(await became(then, id)).toEqual(['ENDED 0 30 0 20 0']);
    expect((await then.cleanup())[0]).toBe('CLEANED');
    expect(await became(then, id)).toEqual(['ENDED 0 0 0 50 0']);
  });
});
