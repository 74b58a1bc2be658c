import { describe, expect, test } from '@jest/globals';
import { eventLogKey, idempotencyKey, tenantEventsKey, tenantKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { debit, debitToTheEnd, makePolicy, type DebitOptions } from '../support/admission-client.js';
import type { BudgetOptions, LedgerClient } from '../support/ledger-client.js';
import { changedKeys } from '../property/readings.js';
import { assertInvariants, isCrossing, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };
const MAX = '9223372036854775807';
/** The id that a debit was given, with its instant. */
const ID = expect.stringMatching(/^evn_1[0-9a-f]{11}$/) as unknown;

interface World {
  readonly ledger: LedgerClient;
  readonly root: string;
  readonly leaf: string;
  readonly charge: (policy: string, amount: number, more?: DebitOptions) => Promise<string[]>;
}

/** A budget at the tenant and one at its agent. */
async function world(root: BudgetOptions = {}, leaf: BudgetOptions = {}): Promise<World> {
  const ledger = await newLedger();
  const scope = ledger.scope(AGENT);
  return {
    ledger,
    root: await ledger.makeBudget(root),
    leaf: await ledger.makeBudget({ ...leaf, scope }),
    charge: (policy, amount, more = {}) => debit(ledger, { subject: AGENT, policy, amount, ...more }),
  };
}

async function eventsOf(ledger: LedgerClient): Promise<string[]> {
  const { events } = await assertInvariants(ledger);
  return events.filter((event) => !isCrossing(event)).map(({ fields }) => `${fields['ty']} ${fields['sc']}`);
}

async function refusedBy({ ledger, charge }: World, policy: string, amount: number): Promise<string[]> {
  const before = await snapshot(ledger);
  const reply = await charge(policy, amount);
  expect(changedKeys(before, await snapshot(ledger)).sort()).toEqual(
    [tenantEventsKey(ledger.tag, ledger.tenant), eventLogKey(ledger.tag)].sort(),
  );
  expect((await readLedger(ledger)).events.at(-1)?.fields).toMatchObject({
    ty: 'custom.direct_debit.denied',
    tn: ledger.tenant,
    sc: reply[1],
    reason_code: reply[0],
    requested_amount: String(amount),
    ...(reply[2] === undefined ? {} : { remaining: reply[2] }),
  });
  return reply;
}

test('a debit that another scope caps at nothing passes a scope whose limit was set below its debt', async () => {
  const { ledger, charge } = await world(
    { allocated: 0 },
    { allocated: 2, spent: 2, debt: 16, overdraftLimit: 13 },
  );
  const reply = await charge('ALLOW_WITH_OVERDRAFT', 5);
  expect([reply[0], ...reply.slice(3, 6)]).toEqual(['APPLIED', '0', 'ALLOW_WITH_OVERDRAFT', '0']);
  expect(await eventsOf(ledger)).not.toContain(`budget.debt_incurred ${ledger.scope(AGENT)}`);
});

describe('a debit that every scope can pay', () => {
  test.each(['', 'REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'])(
    'is charged in full everywhere under the policy %p',
    async (policy) => {
      shows('createEvent');
      const { ledger, root, leaf, charge } = await world({ allocated: 100 }, { allocated: 60 });
      expect(await charge(policy, 60, { id: 'evn_1' })).toEqual([
        'APPLIED',
        'fresh',
        ID,
        '60',
        policy || 'ALLOW_IF_AVAILABLE',
        '0',
        root,
        '40,0,60,100,0,0,0',
        leaf,
        '0,0,60,60,0,0,0',
      ]);
      expect(await eventsOf(ledger)).toEqual([
        `budget.exhausted ${leaf}`,
        `custom.direct_debit.applied ${leaf}`,
      ]);
    },
  );

  test('leaves its whole record in the event log', async () => {
    const { ledger, leaf, charge } = await world();
    await charge('REJECT', 7, {
      id: 'evn_1',
      fields: { ag: 'bot', md: '{"recovered_reservation_id":"rsv_1"}' },
    });
    const { events } = await assertInvariants(ledger);
    expect(events[0]?.fields).toEqual({
      ty: 'custom.direct_debit.applied',
      tn: ledger.tenant,
      sc: leaf,
      ac: 'api_key',
      ki: 'key_1',
      rq: 'req_debit',
      tr: '4bf92f3577b34da6a3ce929d0e0e4736-01',
      event_id: ID,
      bm: '11',
      unit: 'TOKENS',
      actual_amount: '7',
      charged: '7',
      overage_policy: 'REJECT',
      debt_incurred: '0',
      ag: 'bot',
      ak: 'llm',
      md: '{"recovered_reservation_id":"rsv_1"}',
    });
  });

  test('of 0 is applied, and a debit does not affect existing holds', async () => {
    const { ledger, root, leaf, charge } = await world({ allocated: 20 }, { allocated: 20 });
    await ledger.hold({ subject: AGENT, amount: 5 });
    expect((await charge('REJECT', 0)).slice(3, 6)).toEqual(['0', 'REJECT', '0']);
    expect((await charge('REJECT', 15)).slice(6)).toEqual([root, '0,5,15,20,0,0,0', leaf, '0,5,15,20,0,0,0']);
    await assertInvariants(ledger);
  });

  test('is not stopped by debt or by an over-limit mark', async () => {
    const { ledger, charge } = await world({ debt: 5, isOverLimit: true }, { debt: 90, overdraftLimit: 10 });
    expect((await charge('REJECT', 10)).slice(0, 2)).toEqual(['APPLIED', 'fresh']);
    await assertInvariants(ledger);
  });
});

describe('a debit that some scope cannot pay', () => {
  test('REJECT: is refused, naming the first scope with too little, and nothing changes', async () => {
    const one = await world({ allocated: 100 }, { allocated: 59 });
    expect(await refusedBy(one, 'REJECT', 60)).toEqual(['BUDGET_EXCEEDED', one.leaf, '59']);
    const both = await world({ allocated: 10 }, { allocated: 59 });
    expect(await refusedBy(both, 'REJECT', 60)).toEqual(['BUDGET_EXCEEDED', both.root, '10']);
  });

  test('ALLOW_IF_AVAILABLE: is capped to the smallest headroom everywhere, and marks only the scope with too little', async () => {
    const { ledger, root, leaf, charge } = await world({ allocated: 100 }, { allocated: 20 });
    expect((await charge('ALLOW_IF_AVAILABLE', 50)).slice(3)).toEqual([
      '20',
      'ALLOW_IF_AVAILABLE',
      '0',
      root,
      '80,0,20,100,0,0,0',
      leaf,
      '0,0,20,20,0,0,1',
    ]);
    expect(await eventsOf(ledger)).toEqual([
      `budget.over_limit_entered ${leaf}`,
      `budget.exhausted ${leaf}`,
      `custom.direct_debit.applied ${leaf}`,
    ]);
    expect((await charge('ALLOW_IF_AVAILABLE', 50)).slice(3, 6)).toEqual(['0', 'ALLOW_IF_AVAILABLE', '0']);
    expect(await ledger.reserve({ subject: AGENT, amount: 0 })).toEqual([
      'OVERDRAFT_LIMIT_EXCEEDED',
      leaf,
      '0',
    ]);
    await assertInvariants(ledger);
  });

  test('ALLOW_IF_AVAILABLE: charges nothing where a scope is below zero, and makes no debt', async () => {
    const { ledger, root, leaf, charge } = await world(
      { allocated: 100 },
      { allocated: 10, debt: 30, overdraftLimit: 100 },
    );
    expect((await charge('ALLOW_IF_AVAILABLE', 50)).slice(3)).toEqual([
      '0',
      'ALLOW_IF_AVAILABLE',
      '0',
      root,
      '100,0,0,100,0,0,0',
      leaf,
      '-20,0,0,10,30,100,1',
    ]);
    await assertInvariants(ledger);
  });

  test('ALLOW_WITH_OVERDRAFT: the funded part is spent, the rest is debt at each scope that lacks it', async () => {
    const { ledger, root, leaf, charge } = await world(
      { allocated: 40, overdraftLimit: 100 },
      { allocated: 20, overdraftLimit: 30 },
    );
    expect((await charge('ALLOW_WITH_OVERDRAFT', 50)).slice(3)).toEqual([
      '50',
      'ALLOW_WITH_OVERDRAFT',
      '40',
      root,
      '-10,0,40,40,10,100,0',
      leaf,
      '-30,0,20,20,30,30,0',
    ]);
    const { events } = await assertInvariants(ledger);
    const debts = events
      .filter(({ fields }) => fields['ty'] === 'budget.debt_incurred')
      .map(({ fields }) => fields);
    expect(debts).toMatchObject([
      { sc: root, debt_incurred: '10', total_debt: '10', overage_policy: 'ALLOW_WITH_OVERDRAFT' },
      { sc: leaf, debt_incurred: '30', total_debt: '30', overdraft_limit: '30' },
    ]);
    expect(debts[0]).not.toHaveProperty('reservation_id');
  });

  test('ALLOW_WITH_OVERDRAFT: is refused when one scope would pass its limit, and nothing changes anywhere', async () => {
    shows('direct debit atomic');
    const one = await world({ allocated: 40, overdraftLimit: 100 }, { allocated: 20, overdraftLimit: 29 });
    expect(await refusedBy(one, 'ALLOW_WITH_OVERDRAFT', 50)).toEqual(['OVERDRAFT_LIMIT_EXCEEDED', one.leaf]);
    expect((await one.charge('ALLOW_WITH_OVERDRAFT', 49))[0]).toBe('APPLIED');
    expect(await refusedBy(one, 'ALLOW_WITH_OVERDRAFT', 1)).toEqual(['OVERDRAFT_LIMIT_EXCEEDED', one.leaf]);
  });

  test('ALLOW_WITH_OVERDRAFT: a scope without an overdraft limit caps the charge and is marked', async () => {
    const { ledger, root, leaf, charge } = await world(
      { allocated: 10, overdraftLimit: 100 },
      { allocated: 20 },
    );
    expect((await charge('ALLOW_WITH_OVERDRAFT', 50)).slice(3)).toEqual([
      '20',
      'ALLOW_WITH_OVERDRAFT',
      '10',
      root,
      '-10,0,10,10,10,100,0',
      leaf,
      '0,0,20,20,0,0,1',
    ]);
    await assertInvariants(ledger);
  });
});

test("the policy is the request's, else the governing policy's, the deepest budget's, the tenant's, the default", async () => {
  const { ledger, root, leaf, charge } = await world({ allocated: 1000 }, { allocated: 1000 });
  const policy = async (asked = ''): Promise<string | undefined> => (await charge(asked, 1))[4];
  expect(await policy()).toBe('ALLOW_IF_AVAILABLE');
  await ledger.makeTenant({ default_commit_overage_policy: 'REJECT' });
  expect(await policy()).toBe('REJECT');
  await ledger.redis.hset(ledger.budgetKeyOf(root), 'commit_overage_policy', 'ALLOW_IF_AVAILABLE');
  await ledger.redis.hset(ledger.budgetKeyOf(leaf), 'commit_overage_policy', 'ALLOW_WITH_OVERDRAFT');
  expect(await policy()).toBe('ALLOW_WITH_OVERDRAFT');
  await makePolicy(ledger, `${root}/*`, { sets: { commit_overage_policy: 'REJECT' } });
  expect(await policy()).toBe('REJECT');
  expect(await policy('ALLOW_IF_AVAILABLE')).toBe('ALLOW_IF_AVAILABLE');
});

test('the debt event names the policy that applied, though the request named none', async () => {
  const { ledger, charge } = await world(
    { allocated: 5, overdraftLimit: 50 },
    { allocated: 5, overdraftLimit: 50 },
  );
  await ledger.makeTenant({ default_commit_overage_policy: 'ALLOW_WITH_OVERDRAFT' });
  await charge('', 10);
  const { events } = await assertInvariants(ledger);
  expect(events[0]?.fields).toMatchObject({
    ty: 'budget.debt_incurred',
    overage_policy: 'ALLOW_WITH_OVERDRAFT',
  });
});

describe('a repeated debit', () => {
  test('replays its first outcome after other traffic, after the tenant closed, and changes nothing', async () => {
    const { ledger, charge } = await world({ allocated: 100 }, { allocated: 20 });
    const first = await charge('', 50, { key: 'k', id: 'evn_1' });
    await charge('ALLOW_IF_AVAILABLE', 0);
    await ledger.hold({ amount: 5 });
    await ledger.makeTenant({ status: 'CLOSED' });
    const before = await snapshot(ledger);
    const again = await charge('', 50, { key: 'k', id: 'evn_2' });
    expect(again).toEqual(first.with(1, 'replay'));
    expect(await charge('', 51, { key: 'k' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('shares no key with a commit of the same name', async () => {
    shows('idempotency scope');
    const { ledger, charge } = await world();
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    expect((await ledger.commit(id, 10, { key: 'k' }))[0]).toBe('COMMITTED');
    expect((await charge('', 10, { key: 'k' })).slice(0, 2)).toEqual(['APPLIED', 'fresh']);
    expect(await ledger.figures()).toBe('980,0,20,1000,0,0,0');
    await assertInvariants(ledger);
  });
});

describe('a debit is refused, and not even an event is written', () => {
  test('when a figure would exceed int64', async () => {
    const one = await world();
    await one.ledger.redis.hset(one.ledger.budgetKeyOf(one.leaf), {
      allocated: 0,
      spent: MAX,
      remaining: `-${MAX}`,
      debt: 0,
      reserved: 0,
      overdraft_limit: MAX,
    });
    const before = await snapshot(one.ledger);
    expect(await one.charge('ALLOW_WITH_OVERDRAFT', 2)).toEqual(['INT64_OVERFLOW', one.leaf]);
    expect(await snapshot(one.ledger)).toEqual(before);
  });

  test('with an error when a record cannot be trusted', async () => {
    const corruptions: ((ledger: LedgerClient) => Promise<unknown>)[] = [
      (ledger) => ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'name', 'x'),
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'remaining', 'x'),
      (ledger) => ledger.redis.hincrby(ledger.budgetKeyOf(), 'spent', 1),
      (ledger) => ledger.redis.set(idempotencyKey.directDebit(ledger.tag, ledger.tenant, 'k'), ''),
      (ledger) => ledger.redis.set(`${ledger.tag}events`, 'x'),
    ];
    for (const corrupt of corruptions) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      await corrupt(ledger);
      const before = await snapshot(ledger);
      await expect(debit(ledger, { key: 'k' })).rejects.toThrow();
      expect(await snapshot(ledger)).toEqual(before);
    }
  });
});

describe('a dead hold', () => {
  test.each(['REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'])(
    'is reclaimed before a debit lacks funds because of it: %s',
    async (policy) => {
      const ledger = await newLedger();
      const scope = await ledger.makeBudget({ allocated: 100, overdraftLimit: 100 });
      await ledger.makeOverdue((await ledger.hold({ amount: 90 })).id);
      expect((await debit(ledger, { amount: 100, policy, key: 'k' }))[0]).toBe('RECLAIMED');
      expect((await debitToTheEnd(ledger, { amount: 100, policy, key: 'k' })).slice(3)).toEqual([
        '100',
        policy,
        '0',
        scope,
        '0,0,100,100,0,100,0',
      ]);
      await assertInvariants(ledger);
    },
  );
});

test('a debit is exact at both ends of int64', async () => {
  const ledger = await newLedger();
  const scope = await ledger.makeBudget({ allocated: MAX, overdraftLimit: MAX });
  expect((await debit(ledger, { amount: '9007199254740993' })).slice(6)).toEqual([
    scope,
    `9214364837600034814,0,9007199254740993,${MAX},0,${MAX},0`,
  ]);
  expect((await debit(ledger, { amount: '9214364837600034814' })).slice(6)).toEqual([
    scope,
    `0,0,${MAX},${MAX},0,${MAX},0`,
  ]);
  expect((await debit(ledger, { amount: MAX, policy: 'ALLOW_WITH_OVERDRAFT' })).slice(6)).toEqual([
    scope,
    `-${MAX},0,${MAX},${MAX},${MAX},${MAX},0`,
  ]);
  expect(await debit(ledger, { amount: 1, policy: 'ALLOW_WITH_OVERDRAFT' })).toEqual([
    'OVERDRAFT_LIMIT_EXCEEDED',
    scope,
  ]);
  await assertInvariants(ledger);
});
