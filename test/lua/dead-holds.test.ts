import { describe, expect, test } from '@jest/globals';
import type { Reply } from '../../src/redis/scripts.js';
import { CheckedScripts } from '../support/checked-scripts.js';
import { bulkBudget, fund, setWindows, updateBudget } from '../support/governance-client.js';
import { type BudgetOptions, type Hold, LedgerClient, randomText } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

// That an expired hold counts for nothing in reserve, decide and direct debit is tested with these scripts.
const newLedger = useLedger();
const HOUR_MS = 3_600_000;

interface World {
  readonly ledger: LedgerClient;
  /** Of 100, in its lease. */
  readonly alive: Hold;
  /** Of 900, past its grace. */
  readonly dead: Hold;
}

async function world(budget: BudgetOptions = {}, policy = ''): Promise<World> {
  const ledger = await newLedger();
  await ledger.makeBudget(budget);
  const alive = await ledger.hold({ amount: 100, policy });
  const dead = await ledger.hold({ amount: 900 });
  await ledger.makeOverdue(dead.id);
  return { ledger, alive, dead };
}

/** A marked budget accepts no holds, so it is marked after them. */
async function marked(): Promise<World> {
  const made = await world();
  await made.ledger.redis.hset(made.ledger.budgetKeyOf(), { is_over_limit: '1' });
  return made;
}

const commit =
  (actual: number, key = randomText(12)) =>
  ({ ledger, alive }: World): Promise<Reply> =>
    ledger.commit(alive.id, actual, { key });
const funding =
  (operation: string, amount: number) =>
  ({ ledger }: World): Promise<Reply> =>
    fund(ledger, amount, { operation });
const bulk =
  (operation: string, amount: number) =>
  ({ ledger }: World): Promise<Reply> =>
    bulkBudget(ledger, operation, String(amount));
const limit =
  (overdraftLimit: number) =>
  ({ ledger }: World): Promise<Reply> =>
    updateBudget(ledger, String(overdraftLimit));

const capped = (): Promise<World> => world({}, 'ALLOW_IF_AVAILABLE');
const withOverdraft = (overdraftLimit: number) => (): Promise<World> =>
  world({ overdraftLimit }, 'ALLOW_WITH_OVERDRAFT');
async function withWindow(): Promise<World> {
  const made = await world({ allocated: 5000 }, 'ALLOW_WITH_OVERDRAFT');
  const now = await made.ledger.serverTime();
  const ends = [now + HOUR_MS, now + 2 * HOUR_MS, now + 3 * HOUR_MS];
  expect((await setWindows(made.ledger, [{ name: 'day', limit: 1000, ends }]))[0]).toBe('CHANGED');
  return made;
}

describe('an expired hold is reclaimed before it', () => {
  test.each([
    ['caps a commit', capped, commit(600), '400,0,600,1000,0,0,0'],
    ['drives a commit into debt', withOverdraft(1000), commit(600), '400,0,600,1000,0,1000,0'],
    ['exceeds the overdraft limit with a commit', withOverdraft(10), commit(600), '400,0,600,1000,0,10,0'],
    ['caps a commit in a window', withWindow, commit(600), '4400,0,600,5000,0,0,0'],
    ['refuses a DEBIT', () => world(), funding('DEBIT', 500), '400,100,0,500,0,0,0'],
    ['keeps the mark at a RESET', marked, funding('RESET', 500), '400,100,0,500,0,0,0'],
    ['keeps the mark at a RESET_SPENT', marked, funding('RESET_SPENT', 600), '500,100,0,600,0,0,0'],
    ['refuses the DEBIT of a bulk action', () => world(), bulk('DEBIT', 500), '400,100,0,500,0,0,0'],
    ['keeps the mark at the RESET of a bulk action', marked, bulk('RESET', 500), '400,100,0,500,0,0,0'],
    ['keeps the mark at a new overdraft limit', marked, limit(5), '900,100,0,1000,0,5,0'],
  ] as const)('%s', async (_, make, act, figures) => {
    const made = await make();
    const { ledger, dead } = made;
    const [word, now, ...outcomes] = await act(made);
    expect([word, ...outcomes.slice(0, 2)]).toEqual(['RECLAIMED', 'EXPIRED', ledger.tenant]);
    expect(Number(now)).toBeGreaterThan(Number(outcomes[2]));
    expect((await act(made))[0]).toMatch(/^(COMMITTED|FUNDED|SUCCEEDED|CHANGED)$/);
    expect(await ledger.figures()).toBe(figures);
    expect(await ledger.redis.hget(ledger.reservationKeyOf(dead.id), 'st')).toBe('EXPIRED');
    const { events } = await assertInvariants(ledger);
    const kinds = events.map(({ fields }) => fields['ty']);
    expect(kinds).not.toContain('budget.over_limit_entered');
    expect(kinds.filter((kind) => kind === 'reservation.expired')).toHaveLength(1);
  });

  test.each([
    ['caps a commit', capped, commit(600), ['COMMITTED', 'fresh', '100']],
    ['refuses a DEBIT', () => world(), funding('DEBIT', 500), ['BUDGET_EXCEEDED']],
    ['keeps the mark at a RESET', marked, funding('RESET', 500), ['FUNDED', 'fresh', '1000']],
  ] as const)('as long as it lives, it %s', async (_, make, act, reply) => {
    const made = await make();
    await made.ledger.setExpiry(made.dead.id, (await made.ledger.serverTime()) + HOUR_MS);
    expect((await act(made)).slice(0, reply.length)).toEqual(reply);
    expect((await made.ledger.figures()).split(',')[1]).toBe(reply[0] === 'COMMITTED' ? '900' : '1000');
    expect((await made.ledger.figures()).at(-1)).toBe(reply[0] === 'BUDGET_EXCEEDED' ? '0' : '1');
  });

  test('only where funds decide: not before a commit under REJECT, and not before funds that are there', async () => {
    const rejecting = await world({}, 'REJECT');
    const before = await snapshot(rejecting.ledger);
    expect(await commit(600)(rejecting)).toEqual(['BUDGET_EXCEEDED', rejecting.ledger.scope()]);
    expect(await snapshot(rejecting.ledger)).toEqual(before);
    const rich = await world({ allocated: 5000 }, 'ALLOW_IF_AVAILABLE');
    expect((await commit(600)(rich))[0]).toBe('COMMITTED');
    expect((await funding('DEBIT', 500)(rich))[0]).toBe('FUNDED');
    expect(await rich.ledger.figures()).toBe('3000,900,600,4500,0,0,0');
  });

  test('at most 100 in a run, and the next run goes on', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 250 });
    const holds = await Promise.all(Array.from({ length: 150 }, () => ledger.hold({ amount: 1 })));
    for (const { id } of holds) {
      await ledger.makeOverdue(id);
    }
    const runs = [
      await fund(ledger, 200, { operation: 'DEBIT' }),
      await fund(ledger, 200, { operation: 'DEBIT' }),
    ];
    expect(runs.map((reply) => [reply[0], (reply.length - 2) / 3])).toEqual([
      ['RECLAIMED', 100],
      ['RECLAIMED', 50],
    ]);
    expect((await fund(ledger, 200, { operation: 'DEBIT' }))[0]).toBe('FUNDED');
    expect(await ledger.figures()).toBe('50,0,0,50,0,0,0');
    await assertInvariants(ledger);
  });
});

test('a commit that reclaims ends its run with the changes of the calls before it, and the others are sent again', async () => {
  const plain = await newLedger();
  const runs: number[] = [];
  const scripts = new CheckedScripts(plain.redis, undefined, undefined, (_, calls) => runs.push(calls));
  const ledger = new LedgerClient(plain.redis, plain.tag, plain.tenant, scripts);
  await ledger.makeBudget({ allocated: 1000, overdraftLimit: 50 });
  const policy = 'ALLOW_WITH_OVERDRAFT';
  const [first, over, last] = [
    await ledger.hold({ amount: 20, policy }),
    await ledger.hold({ amount: 80, policy }),
    await ledger.hold({ amount: 100, policy }),
  ];
  await ledger.makeOverdue((await ledger.hold({ amount: 800 })).id);
  runs.length = 0;
  const again = { key: 'k' };
  const replies = await Promise.all([
    ledger.commit(first.id, 10),
    ledger.commit(over.id, 600, again),
    ledger.commit(last.id, 90),
  ]);
  expect(runs).toEqual([2, 1]);
  expect(replies.map(([word, second]) => (word === 'RECLAIMED' ? word : `${word} ${second}`))).toEqual([
    'COMMITTED fresh',
    'RECLAIMED',
    'COMMITTED fresh',
  ]);
  expect((await ledger.commit(over.id, 600, again)).slice(0, 4)).toEqual(['COMMITTED', 'fresh', '600', '0']);
  expect(await ledger.figures()).toBe('300,0,700,1000,0,50,0');
  await assertInvariants(ledger);
});
