import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { debit } from '../support/admission-client.js';
import { CheckedScripts } from '../support/checked-scripts.js';
import { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { startRedis } from '../support/redis-server.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

/** Sends calls in one turn of the event loop, so that they share one run. */
function atOnce<T>(calls: readonly (() => Promise<T>)[]): Promise<PromiseSettledResult<T>[]> {
  return Promise.allSettled(calls.map((call) => call()));
}

const wordOf = (result: PromiseSettledResult<string[]>): string =>
  result.status === 'fulfilled' ? result.value.slice(0, 2).join(' ') : String(result.reason);

/**
 * The same ledger with its own registry, the number of calls in each run, and the number of runs that sent
 * the script's text.
 */
function withRuns(ledger: LedgerClient): { ledger: LedgerClient; runs: number[]; texts: () => number } {
  const runs: number[] = [];
  let texts = 0;
  const scripts = new CheckedScripts(
    ledger.redis,
    undefined,
    () => (texts += 1),
    (_, calls) => runs.push(calls),
  );
  return {
    ledger: new LedgerClient(ledger.redis, ledger.tag, ledger.tenant, scripts),
    runs,
    texts: () => texts,
  };
}

test('concurrent calls take turns in one run, each on the state that the previous one left', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  await ledger.makeBudget({ allocated: 30 });
  const replies = await atOnce(Array.from({ length: 5 }, () => () => ledger.reserve({ amount: 10 })));
  expect(runs).toEqual([5]);
  expect(replies.map(wordOf)).toEqual([
    'ALLOW fresh',
    'ALLOW fresh',
    'ALLOW fresh',
    `BUDGET_EXCEEDED ${ledger.scope()}`,
    `BUDGET_EXCEEDED ${ledger.scope()}`,
  ]);
  expect(
    replies.slice(0, 3).map((reply) => (reply.status === 'fulfilled' ? reply.value.at(-1) : '')),
  ).toEqual(['20,10,0,30,0,0,0', '10,20,0,30,0,0,0', '0,30,0,30,0,0,0']);
  expect(await ledger.figures()).toBe('0,30,0,30,0,0,0');
});

test('calls with events or debt and plain ones between them count with each other in one run', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  const scope = await ledger.makeBudget({ allocated: 100, overdraftLimit: 50 });
  const [plain, over, rest] = [
    await ledger.hold({ amount: 20 }),
    await ledger.hold({ amount: 10, policy: 'ALLOW_WITH_OVERDRAFT' }),
    await ledger.hold({ amount: 5 }),
  ];
  const [first] = await atOnce([
    () => ledger.reserve({ amount: 10 }),
    () => ledger.reserve({ amount: 10 }),
    () => ledger.reserve({ amount: 30 }),
    () => ledger.reserve({ amount: 10 }),
    () => ledger.reserve({ amount: 5 }),
    () => ledger.reserve({ amount: 1 }),
    () => ledger.reserve({ amount: 0 }),
  ]);
  expect(wordOf(first as PromiseSettledResult<string[]>)).toBe('ALLOW fresh');
  expect(await ledger.figures()).toBe('0,100,0,100,0,50,0');
  const replies = await atOnce([
    () => ledger.commit(plain.id, 20),
    () => ledger.commit(over.id, 12),
    () => ledger.commit(rest.id, 1),
  ]);
  expect(replies.map(wordOf)).toEqual(['COMMITTED fresh', 'COMMITTED fresh', 'COMMITTED fresh']);
  expect(runs).toEqual([1, 1, 1, 7, 3]);
  expect(await ledger.figures()).toBe('2,65,31,100,2,50,0');
  const { events } = await assertInvariants(ledger);
  expect(
    events.map(({ fields }) => [fields['ty'], fields['sc'], fields['threshold'] ?? ''].join(' ')),
  ).toEqual([
    `budget.threshold_crossed ${scope} 0.8`,
    `budget.threshold_crossed ${scope} 0.95`,
    `budget.exhausted ${scope} `,
    `budget.threshold_crossed ${scope} 1`,
    `reservation.denied ${scope} `,
    `budget.debt_incurred ${scope} `,
    `reservation.commit_overage ${scope} `,
    `budget.threshold_crossed ${scope} 1`,
  ]);
});

test('figures that grow in a run beyond what a double holds stay exact', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  const [allocated, amount] = [9_000_000_000_000_000_000n, 999_999_999_999_999n];
  await ledger.makeBudget({ allocated });
  const replies = await atOnce(Array.from({ length: 16 }, () => () => ledger.reserve({ amount })));
  expect(runs).toEqual([16]);
  expect(replies.map((reply) => (reply.status === 'fulfilled' ? reply.value.at(-1) : wordOf(reply)))).toEqual(
    replies.map((_, index) => {
      const reserved = amount * BigInt(index + 1);
      return `${allocated - reserved},${reserved},0,${allocated},0,0,0`;
    }),
  );
});

test('a run takes at most 16 calls', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  await ledger.makeBudget();
  const replies = await atOnce(Array.from({ length: 18 }, () => () => ledger.reserve({ amount: 1 })));
  expect(replies.map(wordOf)).toEqual(Array.from({ length: 18 }, () => 'ALLOW fresh'));
  expect(runs).toEqual([16, 2]);
  expect(await ledger.figures()).toBe('982,18,0,1000,0,0,0');
});

test('of several calls with one idempotency key in a run the first takes effect, and the others are replays or refused', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const replies = await atOnce([
    () => ledger.reserve(),
    () => ledger.reserve({ key: 'one' }),
    () => ledger.reserve({ key: 'one' }),
    () => ledger.reserve({ key: 'one', amount: 11 }),
  ]);
  expect(replies.map(wordOf)).toEqual(['ALLOW fresh', 'ALLOW fresh', 'ALLOW replay', 'IDEMPOTENCY_MISMATCH']);
  expect(await ledger.figures()).toBe('980,20,0,1000,0,0,0');
});

test('of two commits of one reservation in a run the first settles', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const [first, second] = [await ledger.hold(), await ledger.hold()];
  const replies = await atOnce([
    () => ledger.commit(first.id, 1),
    () => ledger.commit(second.id, 8),
    () => ledger.commit(second.id, 9),
    () => ledger.commit('rsv_unknown', 9),
  ]);
  expect(replies.map(wordOf)).toEqual([
    'COMMITTED fresh',
    'COMMITTED fresh',
    'RESERVATION_FINALIZED COMMITTED',
    'NOT_FOUND',
  ]);
  expect(await ledger.figures()).toBe('991,0,9,1000,0,0,0');
});

test('a call that fails leaves no byte behind, and its neighbours continue', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const broken = ledger.scope({ agent: 'broken' });
  await ledger.makeBudget({ scope: broken });
  await ledger.redis.hset(ledger.budgetKeyOf(broken), { spent: 'junk' });
  const alone = await snapshot(ledger);
  const [failure] = await atOnce([() => ledger.reserve({ subject: { agent: 'broken' } })]);
  expect(wordOf(failure as PromiseSettledResult<string[]>)).toContain('corrupt budget record');
  expect(await snapshot(ledger)).toEqual(alone);

  const replies = await atOnce([
    () => ledger.reserve(),
    () => ledger.reserve({ subject: { agent: 'broken' } }),
    () => ledger.reserve({ subject: { agent: 'sound' } }),
  ]);
  expect(wordOf(replies[1] as PromiseSettledResult<string[]>)).toContain(
    `corrupt budget record ${ledger.budgetKeyOf(broken)}`,
  );
  expect([replies[0], replies[2]].map((reply) => reply?.status)).toEqual(['fulfilled', 'fulfilled']);
  expect(await ledger.figures()).toBe('980,20,0,1000,0,0,0');
  expect(await ledger.figures(broken)).toBe('1000,0,junk,1000,0,0,0');
});

test('a call whose index is damaged changes no figure of the run', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.redis.set(`${ledger.tag}ttl`, 'junk');
  const replies = await atOnce([() => ledger.reserve(), () => ledger.reserve(), () => ledger.reserve()]);
  expect(replies.map((reply) => wordOf(reply).includes('WRONGTYPE'))).toEqual([true, true, true]);
  expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
});

test('a call that reclaims overdue holds ends the run, and the others are sent again', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  await ledger.makeBudget({ allocated: 30 });
  const dead = await ledger.hold({ amount: 20, graceMs: 0 });
  await ledger.redis.hset(ledger.reservationKeyOf(dead.id), { ex: String(Date.now() - 1000) });
  await ledger.redis.zadd(`${ledger.tag}ttl`, Date.now() - 1000, dead.id);
  runs.length = 0;
  const replies = await atOnce([
    () => ledger.reserve({ amount: 1 }),
    () => ledger.reserve({ amount: 2 }),
    () => ledger.reserve({ amount: 20 }),
    () => ledger.reserve({ amount: 20 }),
  ]);
  expect(runs).toEqual([3, 1]);
  expect(replies.map((reply) => wordOf(reply).split(' ')[0])).toEqual([
    'ALLOW',
    'ALLOW',
    'RECLAIMED',
    'ALLOW',
  ]);
  expect(await ledger.figures()).toBe('7,23,0,30,0,0,0');
});

test('a commit that comes too late expires its hold in the middle of a run, and the others are sent again', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  await ledger.makeBudget();
  const holds = [
    await ledger.hold(),
    await ledger.hold(),
    await ledger.hold({ graceMs: 0 }),
    await ledger.hold(),
  ];
  const late = holds[2] as { id: string };
  await ledger.redis.hset(ledger.reservationKeyOf(late.id), { ex: String(Date.now() - 1000) });
  runs.length = 0;
  const replies = await atOnce(
    holds.map(
      ({ id }) =>
        () =>
          ledger.commit(id, 1),
    ),
  );
  expect(runs).toEqual([3, 1]);
  expect(replies.map(wordOf)).toEqual([
    'COMMITTED fresh',
    'COMMITTED fresh',
    'RESERVATION_EXPIRED now',
    'COMMITTED fresh',
  ]);
  expect(await ledger.figures()).toBe('997,0,3,1000,0,0,0');
});

test('a debit that reclaims overdue holds ends the run, and the others are sent again', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  await ledger.makeBudget({ allocated: 30 });
  const dead = await ledger.hold({ amount: 20, graceMs: 0 });
  await ledger.makeOverdue(dead.id);
  runs.length = 0;
  const replies = await atOnce(
    [1, 2, 20, 20, 40].map(
      (amount) => () => debit(ledger, { amount, policy: 'REJECT', key: `key-${amount}` }),
    ),
  );
  expect(runs).toEqual([3, 2]);
  expect(replies.map(wordOf)).toEqual([
    'APPLIED fresh',
    'APPLIED fresh',
    expect.stringContaining('RECLAIMED'),
    'APPLIED fresh',
    `BUDGET_EXCEEDED ${ledger.scope()}`,
  ]);
  expect(await ledger.figures()).toBe('7,0,23,30,0,0,0');
});

test('debits with debt and plain ones count with each other in one run', async () => {
  const { ledger, runs } = withRuns(await newLedger());
  const scope = await ledger.makeBudget({ allocated: 30, overdraftLimit: 9 });
  const replies = await atOnce(
    [10, 25, 1, 10].map((amount) => () => debit(ledger, { amount, policy: 'ALLOW_WITH_OVERDRAFT' })),
  );
  expect(runs).toEqual([4]);
  expect(replies.map((reply) => (reply.status === 'fulfilled' ? reply.value.at(-1) : ''))).toEqual([
    '20,0,10,30,0,9,0',
    '-5,0,30,30,5,9,0',
    '-6,0,30,30,6,9,0',
    scope,
  ]);
  expect(wordOf(replies[3] as PromiseSettledResult<string[]>)).toBe(`OVERDRAFT_LIMIT_EXCEEDED ${scope}`);
  await assertInvariants(ledger);
});

test('a damaged list of the tenant ends each call before a figure has changed', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.redis.set(`${ledger.tag}rc:${ledger.tenant}`, 'junk');
  const replies = await atOnce([() => ledger.reserve(), () => ledger.reserve(), () => ledger.reserve()]);
  expect(replies.map((reply) => wordOf(reply).includes('WRONGTYPE'))).toEqual([true, true, true]);
  expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
});

test('the limit on stored bytes counts the reservations of the same run', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  // Room for three reservations of 600 bytes, according to a count that first has to be taken.
  await ledger.redis.hset(`${ledger.tag}own:${ledger.tenant}`, { stored: '1000000' });
  const replies = await atOnce(Array.from({ length: 6 }, () => () => ledger.reserve({ maxStored: 1800 })));
  expect(replies.map((reply) => wordOf(reply).split(' ')[0])).toEqual([
    ...Array.from({ length: 3 }, () => 'ALLOW'),
    ...Array.from({ length: 3 }, () => 'LIMIT_EXCEEDED'),
  ]);
});

test('a server that has lost the functions runs the text of a group', async () => {
  const server = await startRedis();
  const redis = new Redis(server.url);
  try {
    const { ledger, runs, texts } = withRuns(await LedgerClient.make(redis));
    await ledger.makeBudget();
    const replies = await atOnce(Array.from({ length: 5 }, (_, amount) => () => ledger.reserve({ amount })));
    expect(replies.map(wordOf)).toEqual(Array.from({ length: 5 }, () => 'ALLOW fresh'));
    expect(runs).toEqual([5]);
    expect(texts()).toBeGreaterThanOrEqual(1);
    expect(await ledger.figures()).toBe('990,10,0,1000,0,0,0');
  } finally {
    await redis.quit();
    await server.stop();
  }
});

test('changes of a budget between two runs are visible in the second', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget({ allocated: 30 });
  const key = ledger.budgetKeyOf();
  const reserved = async (): Promise<string> => (await ledger.reserve({ amount: 10 })).slice(0, 1).join();
  expect(await reserved()).toBe('ALLOW');
  await ledger.redis.hset(key, { status: 'FROZEN' });
  expect(await reserved()).toBe('BUDGET_FROZEN');
  await ledger.redis.hset(key, { status: 'ACTIVE', allocated: '10', remaining: '0' });
  expect(await reserved()).toBe('BUDGET_EXCEEDED');
  await ledger.redis.hset(key, { allocated: '1000', remaining: '990' });
  expect(await reserved()).toBe('ALLOW');
  await ledger.redis.hset(key, { remaining: '981' });
  await expect(reserved()).rejects.toThrow('remaining is not allocated');
  await expect(reserved()).rejects.toThrow('remaining is not allocated');
  await ledger.redis.hset(key, { remaining: 'junk' });
  await expect(reserved()).rejects.toThrow('corrupt budget record');
  await ledger.redis.hset(key, { remaining: '980' });
  expect(await reserved()).toBe('ALLOW');
  await ledger.redis.del(key);
  expect(await reserved()).toBe('NOT_FOUND');
});
