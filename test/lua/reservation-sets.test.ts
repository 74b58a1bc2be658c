import { describe, expect, test } from '@jest/globals';
import {
  cleanupIndexKey,
  idempotencyKey,
  reservationIndexKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { LIBRARY, libraryWithTestClock, type Script } from '../../src/redis/script-library.js';
import { makePolicy } from '../support/admission-client.js';
import { useClockedLedgers } from '../support/clocked-ledger.js';
import { type LedgerClient, type ReserveOptions } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { reserveSet, wordsOf } from '../support/reservation-sets.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const clocked = useClockedLedgers();
const TOGETHER = 'ALLOW fresh, ALLOW fresh';

/** Tokens and credits of one action. */
const both = (tokens: number, credits: number, more: ReserveOptions = {}): ReserveOptions[] => [
  { amount: tokens, key: `t-${tokens}-${credits}`, ...more },
  { amount: credits, unit: 'CREDITS', key: `c-${tokens}-${credits}`, ...more },
];

async function funded(make = newLedger, more = {}): Promise<LedgerClient> {
  const ledger = await make();
  await ledger.makeTenant(more);
  await ledger.makeBudget({ allocated: 100 });
  await ledger.makeBudget({ allocated: 50, unit: 'CREDITS' });
  return ledger;
}

const quotas = (...list: Record<string, unknown>[]): Record<string, string> => ({
  action_quotas: JSON.stringify(list.map((quota) => ({ action_kind: 'llm', ...quota }))),
});

/** Runs a set that must be refused, and that must leave nothing but events. */
async function refusedWithoutTrace(
  ledger: LedgerClient,
  members: readonly ReserveOptions[],
): Promise<{ words: string; details: string[]; denied: string[] }> {
  const before = await snapshot(ledger, 'events');
  const { events: earlier } = await assertInvariants(ledger);
  const answer = await reserveSet(ledger, members);
  expect(await snapshot(ledger, 'events')).toEqual(before);
  const { events } = await assertInvariants(ledger);
  const denied = events.slice(earlier.length).map(({ fields }) => `${fields['ty']} ${fields['unit']}`);
  return { words: wordsOf(answer), details: answer.replies[0] as string[], denied };
}

test('a set is granted in one run, and each member answers and stores what it would alone', async () => {
  const ledger = await funded();
  const answer = await reserveSet(ledger, both(30, 20), { id: 'set_00one' });
  expect(wordsOf(answer)).toBe(TOGETHER);
  expect(answer.replies.map((reply) => reply.at(-1))).toEqual(['70,30,0,100,0,0,0', '30,20,0,50,0,0,0']);
  for (const [, , id] of answer.replies) {
    const record = await ledger.redis.hgetall(ledger.reservationKeyOf(id as string));
    expect(record).toMatchObject({ st: 'ACTIVE', sg: 'set_00one' });
  }
  await assertInvariants(ledger);
  const [tokens] = answer.replies;
  expect((await ledger.commit(tokens?.[2] as string, 25))[0]).toBe('COMMITTED');
  expect([await ledger.figures(), await ledger.figures(ledger.scope(), 'CREDITS')]).toEqual([
    '75,0,25,100,0,0,0',
    '30,20,0,50,0,0,0',
  ]);
});

test('both passes of a set have the instant that the first one has read, though the clock moves between them', async () => {
  const ledger = await funded();
  // In a library of its own, whose clock is a minute later at each reading.
  const script = LIBRARY.scripts.get('reserve') as Script;
  const [own = ''] = /[0-9a-f]{12}$/.exec(LIBRARY.name) ?? [];
  const [shebang, ...body] = LIBRARY.code.replaceAll(own, 'moves').split('\n');
  const clock =
    'local reads = 0\nlocal function moved() reads = reads + 60; return { 1800000000 + reads, 0 } end';
  const code = [shebang, clock, ...body].join('\n').replaceAll("redis.call('TIME')", 'moved()');
  await ledger.redis.function('LOAD', 'REPLACE', code);
  const plain = { ...script, functionName: `${script.functionName.replace(own, 'moves')}_set` };
  const { replies } = await reserveSet(
    ledger,
    [
      { amount: 1, ttlMs: 7 },
      { amount: 2, ttlMs: 8 },
    ],
    {
      script: { ...script, set: { plain, attested: plain } },
    },
  );
  expect(replies.map((reply) => reply[3])).toEqual(['1800000060007', '1800000060008']);
});

test('members of one budget count with each other', async () => {
  const ledger = await funded();
  const { words, details, denied } = await refusedWithoutTrace(ledger, [{ amount: 60 }, { amount: 60 }]);
  expect(words).toBe('1: BUDGET_EXCEEDED');
  expect(details[2]).toBe('40');
  expect(denied).toEqual(['reservation.denied TOKENS']);
  expect(wordsOf(await reserveSet(ledger, [{ amount: 60 }, { amount: 40 }]))).toBe(TOGETHER);
});

test.each([
  [0, both(101, 1), '0: BUDGET_EXCEEDED', 'TOKENS'],
  [1, both(1, 51), '1: BUDGET_EXCEEDED', 'CREDITS'],
])('a refusal of member %i leaves its event and nothing else', async (_place, members, words, unit) => {
  const ledger = await funded();
  expect(await refusedWithoutTrace(ledger, members)).toMatchObject({
    words,
    denied: [`reservation.denied ${unit}`],
  });
});

test('debt, a frozen budget and a missing one refuse a set as they refuse a reserve', async () => {
  const ledger = await funded();
  await ledger.redis.hset(ledger.budgetKeyOf(ledger.scope(), 'CREDITS'), { debt: '5', remaining: '45' });
  expect((await refusedWithoutTrace(ledger, both(1, 1))).words).toBe('1: DEBT_OUTSTANDING');
  await ledger.redis.hset(ledger.budgetKeyOf(), { status: 'FROZEN' });
  expect((await refusedWithoutTrace(ledger, both(1, 1))).words).toBe('0: BUDGET_FROZEN');
  const members = [{ amount: 1, unit: 'RISK_POINTS' }, ...both(1, 1)];
  expect((await refusedWithoutTrace(ledger, members)).words).toBe('0: UNIT_MISMATCH');
});

test('a window counts what the members before have reserved', async () => {
  const ledger = await funded();
  const now = await ledger.serverTime();
  const windows = ['day', '50', '0', String(now - 1000), String(now + 3_600_000)].join();
  await ledger.redis.hset(ledger.budgetKeyOf(), { windows, extras: '1' });
  const { words, details } = await refusedWithoutTrace(ledger, [{ amount: 30 }, { amount: 30 }]);
  expect(words).toBe('1: BUDGET_EXCEEDED');
  expect(details.slice(-2)).toEqual(['day', '50']);
  expect(wordsOf(await reserveSet(ledger, [{ amount: 30 }, { amount: 20 }]))).toBe(TOGETHER);
});

test('the caps of a policy come with each member', async () => {
  const ledger = await funded();
  await makePolicy(ledger, ledger.scope(), { sets: { caps: '{"max_tokens":7}' } });
  expect(wordsOf(await reserveSet(ledger, both(1, 1)))).toBe('ALLOW_WITH_CAPS fresh, ALLOW_WITH_CAPS fresh');
});

describe('quotas and rates', () => {
  test.each([
    ['a quota by the day', quotas({ max_calls: 1, window: 'per_day_tumbling' }), 'ACTION_QUOTA_EXCEEDED'],
    ['a quota by the run', quotas({ max_calls: 1, window: 'per_run' }), 'ACTION_QUOTA_EXCEEDED'],
    ['a rate', { max_reservations_per_minute: '1' }, 'RATE_LIMITED'],
  ])('%s counts an action in two units once', async (_what, sets, refusal) => {
    const ledger = await clocked.make();
    await clocked.stand(1_800_000_000_000);
    await ledger.makeTenant();
    await ledger.makeBudget();
    await ledger.makeBudget({ unit: 'CREDITS' });
    await makePolicy(ledger, ledger.scope(), { sets });
    const script = libraryWithTestClock().scripts.get('reserve');
    const facts = 'side_effect|run-1|||';
    const members = (from: number): ReserveOptions[] => both(from, from, { facts });
    const twice: ReserveOptions[] = [
      { amount: 1, facts },
      { amount: 2, facts },
    ];
    const before = await snapshot(ledger, 'events');
    expect(wordsOf(await reserveSet(ledger, twice, { script }))).toBe(`1: ${refusal}`);
    expect(await snapshot(ledger, 'events')).toEqual(before);
    expect(wordsOf(await reserveSet(ledger, members(3), { script }))).toBe(TOGETHER);
    expect(wordsOf(await reserveSet(ledger, members(4), { script }))).toBe(`0: ${refusal}`);
    expect((await ledger.reserve({ amount: 5, facts }))[0]).toBe(refusal);
  });

  test('what a refused set would have counted is counted nowhere', async () => {
    const ledger = await funded();
    await makePolicy(ledger, ledger.scope(), {
      sets: {
        ...quotas({ max_calls: 3, window: 'per_day_tumbling' }),
        max_reservations_per_minute: '3',
      },
    });
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
    const members = [{ amount: 1 }, { amount: 1, subject: { agent: 'bot' } }, { amount: 99 }];
    expect(await refusedWithoutTrace(ledger, members)).toMatchObject({
      words: expect.stringMatching(/^2: /) as unknown,
    });
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ACTION_QUOTA_EXCEEDED');
  });
});

describe('what a tenant may own', () => {
  test('the last free reservation is not enough for two', async () => {
    const ledger = await funded();
    await ledger.hold({ amount: 1, maxLive: 2 });
    const members = both(1, 1, { maxLive: 2 });
    expect(await refusedWithoutTrace(ledger, members)).toMatchObject({
      words: '1: LIMIT_EXCEEDED',
      denied: [],
    });
    expect((await ledger.reserve({ amount: 1, maxLive: 2 }))[0]).toBe('ALLOW');
  });

  test('the bytes of the members before count', async () => {
    const ledger = await funded();
    await ledger.redis.hset(`${ledger.tag}own:${ledger.tenant}`, { stored: '1000000' });
    const three = [1, 2, 3].map((amount) => ({ amount, maxStored: 1800 }));
    expect((await refusedWithoutTrace(ledger, [...three, { amount: 4, maxStored: 1800 }])).words).toBe(
      '3: LIMIT_EXCEEDED',
    );
    expect(wordsOf(await reserveSet(ledger, three))).toBe(`${TOGETHER}, ALLOW fresh`);
  });

  test('the bytes of the events of a set do not count against its members', async () => {
    const ledger = await funded();
    await ledger.redis.hset(`${ledger.tag}own:${ledger.tenant}`, { stored: '1000000' });
    const members = [99, 1].map((amount) => ({ amount, maxStored: 1200 }));
    expect(wordsOf(await reserveSet(ledger, members))).toBe(TOGETHER);
    const { events } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => fields['ty'])).toContain('budget.threshold_crossed');
  });
});

test('overdue holds in the way are reclaimed first, and nothing of the set is left until it runs again', async () => {
  const ledger = await funded();
  const dead = await ledger.hold({ amount: 90, graceMs: 0 });
  const past = Date.now() - 1000;
  await ledger.redis.hset(ledger.reservationKeyOf(dead.id), { ex: String(past) });
  await ledger.redis.zadd(ttlIndexKey(ledger.tag), past, dead.id);
  const members = [{ amount: 5, key: 'a' }, ...both(60, 20)];
  expect(wordsOf(await reserveSet(ledger, members))).toBe('1: RECLAIMED');
  expect([await ledger.figures(), await ledger.figures(ledger.scope(), 'CREDITS')]).toEqual([
    '100,0,0,100,0,0,0',
    '50,0,0,50,0,0,0',
  ]);
  expect(wordsOf(await reserveSet(ledger, members))).toBe(`${TOGETHER}, ALLOW fresh`);
  await assertInvariants(ledger);
});

test('a set under a tenant in observe mode is refused unless its members are enforced', async () => {
  const ledger = await funded(newLedger, { observe_mode: 'OBSERVE' });
  expect(await refusedWithoutTrace(ledger, both(1, 1))).toMatchObject({
    words: '0: OBSERVED_SET',
    denied: [],
  });
  expect(wordsOf(await reserveSet(ledger, both(2, 2, { observe: 'ENFORCE' })))).toBe(TOGETHER);
});

describe('idempotency', () => {
  const ttls = (ledger: LedgerClient, keys: readonly string[]): Promise<number[]> =>
    Promise.all(
      keys.map((key) => ledger.redis.pexpiretime(idempotencyKey.reserve(ledger.tag, ledger.tenant, key))),
    );
  const KEYS = ['t-30-20', 'c-30-20'];

  test('a repeated set is replayed as a whole, with its id', async () => {
    const ledger = await funded();
    const first = await reserveSet(ledger, both(30, 20), { id: 'set_00first', fingerprint: 'f' });
    const before = await snapshot(ledger);
    const again = await reserveSet(ledger, both(30, 20), { id: 'set_00second', fingerprint: 'f' });
    expect([wordsOf(again), again.earlierId]).toEqual(['ALLOW replay, ALLOW replay', 'set_00first']);
    expect(again.replies.map((reply) => reply[2])).toEqual(first.replies.map((reply) => reply[2]));
    expect(await snapshot(ledger)).toEqual(before);
    expect(wordsOf(await reserveSet(ledger, both(30, 20), { fingerprint: 'other' }))).toBe(
      '0: IDEMPOTENCY_MISMATCH',
    );
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('a key that was granted alone, and a member of a set alone, are mismatches', async () => {
    const ledger = await funded();
    await ledger.hold({ amount: 20, unit: 'CREDITS', key: 'c-30-20' });
    expect((await refusedWithoutTrace(ledger, both(30, 20))).words).toBe('1: IDEMPOTENCY_MISMATCH');
    expect(wordsOf(await reserveSet(ledger, both(1, 2)))).toBe(TOGETHER);
    expect((await ledger.reserve({ amount: 1, key: 't-1-2' }))[0]).toBe('IDEMPOTENCY_MISMATCH');
  });

  test('the records last as long as the longest reservation can, and lapse together after an extension', async () => {
    const ledger = await funded();
    const [tokens = {}, credits = {}] = both(30, 20, { idempotencyTtlMs: 60_000 });
    const set = await reserveSet(ledger, [
      { ...tokens, ttlMs: 70_000 },
      { ...credits, ttlMs: 200_000 },
    ]);
    const [first = 0, second] = await ttls(ledger, KEYS);
    expect(second).toBe(first);
    expect(first).toBeGreaterThanOrEqual(Number(set.replies[1]?.[3]) + 5000);
    const id = set.replies[0]?.[2] as string;
    expect((await ledger.extend(id, 400_000, { idempotencyTtlMs: 60_000 }))[0]).toBe('ACTIVE');
    const [later = 0, together] = await ttls(ledger, KEYS);
    expect(together).toBe(later);
    expect(later).toBeGreaterThan(first);
  });

  test('a set of which a record is gone is not granted a second time', async () => {
    const ledger = await funded();
    await reserveSet(ledger, both(30, 20), { fingerprint: 'f' });
    await ledger.redis.del(idempotencyKey.reserve(ledger.tag, ledger.tenant, 'c-30-20'));
    const before = await snapshot(ledger);
    expect(wordsOf(await reserveSet(ledger, both(30, 20), { fingerprint: 'f' }))).toBe(
      '0: IDEMPOTENCY_MISMATCH',
    );
    expect(await snapshot(ledger)).toEqual(before);
  });
});

test.each<[string, (ledger: LedgerClient) => string, Record<string, string>]>([
  ['of deadlines', ({ tag }) => ttlIndexKey(tag), {}],
  ['of cleanups', ({ tag }) => cleanupIndexKey(tag), { reservation_expiry_policy: 'MANUAL_CLEANUP' }],
  ['of reservations', ({ tag, tenant }) => reservationIndexKey(tag, tenant), {}],
])('a damaged index %s ends a set before anything is written', async (_, keyOf, settings) => {
  const ledger = await funded(newLedger, settings);
  await ledger.redis.set(keyOf(ledger), 'junk');
  const before = await snapshot(ledger);
  await expect(reserveSet(ledger, both(1, 1))).rejects.toThrow('WRONGTYPE');
  expect(await snapshot(ledger)).toEqual(before);
});

test('a set that crosses a threshold and exhausts a budget tells of it once', async () => {
  const ledger = await funded();
  expect(wordsOf(await reserveSet(ledger, both(100, 10)))).toBe(TOGETHER);
  const { events } = await assertInvariants(ledger);
  expect(events.map(({ fields }) => fields['ty'])).toContain('budget.exhausted');
  expect(events.filter(({ fields }) => fields['ty'] === 'budget.exhausted')).toHaveLength(1);
});
