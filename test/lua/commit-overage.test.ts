import { describe, expect, test } from '@jest/globals';
import type { OveragePolicy } from '../../src/ledger/amount.js';
import { shows } from '../compatibility/shows.js';
import type { BudgetOptions, LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, isCrossing, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };
const MAX = '9223372036854775807';

interface World {
  readonly ledger: LedgerClient;
  readonly root: string;
  readonly leaf: string;
  readonly id: string;
}

/** A hold of 10 on two budgets, in which `remaining` is left besides. */
async function world(policy: OveragePolicy, root: BudgetOptions, leaf: BudgetOptions): Promise<World> {
  const ledger = await newLedger();
  const scope = ledger.scope(AGENT);
  const rootScope = await ledger.makeBudget(root);
  await ledger.makeBudget({ ...leaf, scope });
  const { id } = await ledger.hold({ subject: AGENT, amount: 10, policy });
  return { ledger, root: rootScope, leaf: scope, id };
}

async function eventsOf(ledger: LedgerClient): Promise<string[]> {
  const { events } = await assertInvariants(ledger);
  return events.filter((event) => !isCrossing(event)).map(({ fields }) => `${fields['ty']} ${fields['sc']}`);
}

test('REJECT: a commit over the estimate is refused, and one at the estimate works afterwards', async () => {
  shows('commitReservation');
  const { ledger, leaf, id } = await world('REJECT', { allocated: 1000 }, { allocated: 1000 });
  const before = await snapshot(ledger);
  expect(await ledger.commit(id, 11)).toEqual(['BUDGET_EXCEEDED', leaf]);
  expect(await snapshot(ledger)).toEqual(before);
  expect((await ledger.commit(id, 10)).slice(0, 4)).toEqual(['COMMITTED', 'fresh', '10', '0']);
});

describe('ALLOW_IF_AVAILABLE', () => {
  test('charges the full actual when every scope can pay it', async () => {
    const { ledger, root, leaf, id } = await world(
      'ALLOW_IF_AVAILABLE',
      { allocated: 110 },
      { allocated: 60 },
    );
    expect((await ledger.commit(id, 50)).slice(2)).toEqual([
      '50',
      '0',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '40',
      '0',
      root,
      '60,0,50,110,0,0,0',
      leaf,
      '10,0,50,60,0,0,0',
    ]);
    expect(await eventsOf(ledger)).toEqual([`reservation.commit_overage ${leaf}`]);
  });

  test('caps the charge to the smallest headroom everywhere, and marks only the scope that could not pay', async () => {
    shows('debt only with overdraft');
    const { ledger, root, leaf, id } = await world(
      'ALLOW_IF_AVAILABLE',
      { allocated: 110 },
      { allocated: 30 },
    );
    expect((await ledger.commit(id, 50)).slice(2)).toEqual([
      '30',
      '0',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '40',
      '0',
      root,
      '80,0,30,110,0,0,0',
      leaf,
      '0,0,30,30,0,0,1',
    ]);
    expect(await eventsOf(ledger)).toEqual([
      `budget.over_limit_entered ${leaf}`,
      `budget.exhausted ${leaf}`,
      `reservation.commit_overage ${leaf}`,
    ]);
    expect(await ledger.reserve({ subject: AGENT, amount: 0 })).toEqual([
      'OVERDRAFT_LIMIT_EXCEEDED',
      leaf,
      '0',
    ]);
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
  });

  test('caps the charge to the smallest headroom where that is the root', async () => {
    const { ledger, root, leaf, id } = await world(
      'ALLOW_IF_AVAILABLE',
      { allocated: 15 },
      { allocated: 18 },
    );
    expect((await ledger.commit(id, 50))[2]).toBe('15');
    expect(await ledger.figures(root)).toBe('0,0,15,15,0,0,1');
    expect(await ledger.figures(leaf)).toBe('3,0,15,18,0,0,1');
  });

  test('caps the overage to zero if a scope is below zero: only the estimate is charged', async () => {
    const { ledger, root, leaf, id } = await world(
      'ALLOW_IF_AVAILABLE',
      { allocated: 1000 },
      { allocated: 10 },
    );
    await ledger.makeBudget({ scope: leaf, allocated: 10, reserved: 10, debt: 7, overdraftLimit: 100 });
    expect((await ledger.commit(id, 50)).slice(2)).toEqual([
      '10',
      '0',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '40',
      '0',
      root,
      '990,0,10,1000,0,0,0',
      leaf,
      '-7,0,10,10,7,100,1',
    ]);
    await assertInvariants(ledger);
  });

  test('emits the overage once, with the charged and the requested actual', async () => {
    const { ledger, leaf, id } = await world('ALLOW_IF_AVAILABLE', { allocated: 110 }, { allocated: 30 });
    await ledger.commit(id, 50, { key: 'c' });
    await ledger.commit(id, 50, { key: 'c' });
    const { events, holds } = await assertInvariants(ledger);
    const told = events.filter(({ fields }) => fields['ty'] === 'reservation.commit_overage');
    expect(told).toHaveLength(1);
    expect(told[0]?.fields).toMatchObject({
      sc: leaf,
      reservation_id: id,
      estimated_amount: '10',
      actual_amount: '50',
      overage: '40',
      debt_incurred: '0',
      overage_policy: 'ALLOW_IF_AVAILABLE',
      unit: 'TOKENS',
      rq: 'req_commit',
      ki: 'key_1',
    });
    expect(holds.get(id)?.['ev']).toBe(told[0]?.id);
  });
});

describe('ALLOW_WITH_OVERDRAFT', () => {
  test('takes what is funded into spent and the rest into debt, and remaining goes below zero', async () => {
    const { ledger, root, leaf, id } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: 1000, overdraftLimit: 100 },
      { allocated: 30, overdraftLimit: 100 },
    );
    expect((await ledger.commit(id, 60)).slice(2)).toEqual([
      '60',
      '0',
      'TOKENS',
      'ALLOW_WITH_OVERDRAFT',
      '50',
      '30',
      root,
      '940,0,60,1000,0,100,0',
      leaf,
      '-30,0,30,30,30,100,0',
    ]);
    const events = (await assertInvariants(ledger)).events.filter((event) => !isCrossing(event));
    expect(events.map(({ fields }) => `${fields['ty']} ${fields['sc']}`)).toEqual([
      `budget.debt_incurred ${leaf}`,
      `budget.exhausted ${leaf}`,
      `reservation.commit_overage ${leaf}`,
    ]);
    expect(events[0]?.fields).toMatchObject({
      debt_incurred: '30',
      total_debt: '30',
      overdraft_limit: '100',
    });
  });

  test('is refused when debt and deficit would pass a limit on any scope, and nothing changes anywhere', async () => {
    shows('overdraft limit at commit');
    const { ledger, leaf, id } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: 20, overdraftLimit: 100 },
      { allocated: 30, overdraftLimit: 29 },
    );
    const before = await snapshot(ledger);
    expect(await ledger.commit(id, 60)).toEqual(['OVERDRAFT_LIMIT_EXCEEDED', leaf]);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await ledger.commit(id, 59)).slice(2, 8)).toEqual([
      '59',
      '0',
      'TOKENS',
      'ALLOW_WITH_OVERDRAFT',
      '49',
      '68',
    ]);
    await assertInvariants(ledger);
  });

  test('counts existing debt against the limit', async () => {
    const { ledger, id, leaf } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: 1000 },
      { allocated: 30, debt: 15, overdraftLimit: 20 },
    );
    expect((await ledger.commit(id, 21))[0]).toBe('OVERDRAFT_LIMIT_EXCEEDED');
    expect((await ledger.commit(id, 20)).slice(2, 4)).toEqual(['20', '0']);
    expect(await ledger.figures(leaf)).toBe('-5,0,15,30,20,20,0');
    await assertInvariants(ledger);
  });

  test('caps and marks at a scope without an overdraft limit, instead of refusing', async () => {
    shows('debt only with overdraft');
    const { ledger, root, leaf, id } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: 15, overdraftLimit: 100 },
      { allocated: 30 },
    );
    expect((await ledger.commit(id, 60)).slice(2)).toEqual([
      '30',
      '0',
      'TOKENS',
      'ALLOW_WITH_OVERDRAFT',
      '50',
      '15',
      root,
      '-15,0,15,15,15,100,0',
      leaf,
      '0,0,30,30,0,0,1',
    ]);
    expect(await eventsOf(ledger)).toEqual([
      `budget.debt_incurred ${root}`,
      `budget.exhausted ${root}`,
      `budget.over_limit_entered ${leaf}`,
      `budget.exhausted ${leaf}`,
      `reservation.commit_overage ${leaf}`,
    ]);
  });
});

describe('at the ends of int64', () => {
  test('an actual of the largest amount is exact', async () => {
    const { ledger, id } = await world('ALLOW_IF_AVAILABLE', { allocated: MAX }, { allocated: MAX });
    expect((await ledger.commit(id, MAX)).slice(2, 8)).toEqual([
      MAX,
      '0',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '9223372036854775797',
      '0',
    ]);
    expect(await ledger.figures()).toBe(`0,0,${MAX},${MAX},0,0,0`);
    await assertInvariants(ledger);
  });

  test('a settlement between 2^53 and 2^63 is exact, and its replay too', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: MAX });
    const { id } = await ledger.hold({ amount: '9007199254740993' });
    const expected = [
      '9007199254740991',
      '2',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '0',
      '0',
      scope,
      `9214364837600034816,0,9007199254740991,${MAX},0,0,0`,
    ];
    expect((await ledger.commit(id, '9007199254740991', { key: 'c' })).slice(2)).toEqual(expected);
    expect((await ledger.commit(id, '9007199254740991', { key: 'c' })).slice(2)).toEqual(expected);
  });

  test('debts near the largest amount stay exact at each scope, and their sum in the reply and the event saturates', async () => {
    const big = { allocated: 10, overdraftLimit: MAX };
    const { ledger, root, leaf, id } = await world('ALLOW_WITH_OVERDRAFT', big, big);
    const reply = await ledger.commit(id, MAX, { key: 'c' });
    const text = `-9223372036854775797,0,10,10,9223372036854775797,${MAX},0`;
    expect(reply.slice(2)).toEqual([
      MAX,
      '0',
      'TOKENS',
      'ALLOW_WITH_OVERDRAFT',
      '9223372036854775797',
      MAX,
      root,
      text,
      leaf,
      text,
    ]);
    expect((await ledger.commit(id, MAX, { key: 'c' })).slice(2)).toEqual(reply.slice(2));
    const { events } = await assertInvariants(ledger);
    expect(events.at(-1)?.fields).toMatchObject({
      ty: 'reservation.commit_overage',
      debt_incurred: MAX,
      actual_amount: MAX,
    });
  });

  test('a figure that would exceed int64 refuses the commit without a write', async () => {
    const { ledger, leaf, id } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: 1000 },
      { allocated: 10, overdraftLimit: MAX },
    );
    await ledger.makeBudget({
      scope: leaf,
      allocated: 0,
      spent: '9223372036854775000',
      reserved: 10,
      overdraftLimit: MAX,
    });
    await ledger.makeBudget({ allocated: MAX, reserved: 10 });
    const before = await snapshot(ledger);
    expect(await ledger.commit(id, 900)).toEqual(['INT64_OVERFLOW', leaf]);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await ledger.commit(id, 800))[0]).toBe('COMMITTED');
    await assertInvariants(ledger);
  });

  test('a debt that would exceed int64 is beyond any limit', async () => {
    const { ledger, leaf, id } = await world(
      'ALLOW_WITH_OVERDRAFT',
      { allocated: MAX },
      { allocated: 10, overdraftLimit: MAX },
    );
    await ledger.makeBudget({
      scope: leaf,
      allocated: 0,
      reserved: 10,
      debt: '9223372036854775000',
      overdraftLimit: MAX,
    });
    expect(await ledger.commit(id, 900)).toEqual(['OVERDRAFT_LIMIT_EXCEEDED', leaf]);
  });
});
