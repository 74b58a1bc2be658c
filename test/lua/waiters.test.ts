import { describe, expect, test } from '@jest/globals';
import { budgetKey, waiterQueueKey, waitersKey } from '../../src/redis/keyspace.js';
import { DEFAULT_UNIT, type LedgerClient, randomText } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { commandsOf } from '../support/script-commands.js';
import { ONE, toldOf, TWO } from '../support/told-places.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

interface Waiter {
  readonly place: string;
  number: string;
  scope: string;
  readonly amount: number;
  readonly key: string;
}

let made = 0;
const waiterOf = (amount: number, instance = ONE): Waiter => ({
  place: `${instance}.${(made += 1)}.${amount}`,
  number: '-',
  scope: '-',
  amount,
  key: randomText(12),
});

/** Reserves as the service does for a waiting request, which gets the place that the reply names. */
async function run(
  ledger: LedgerClient,
  waiter: Waiter,
  { waitMs = 9000, most = 9, subject = {} } = {},
): Promise<string[]> {
  const { place, number, scope, amount, key } = waiter;
  const reply = await ledger.reserve({
    amount,
    key,
    subject,
    waiter: `${most} ${waitMs} ${place} ${number} ${scope}`,
  });
  if (reply[0] === 'WAITING') {
    [, waiter.number, waiter.scope] = reply as [string, string, string];
    await keep(ledger, waiter);
  }
  return reply;
}

/** Places lapse only where a test is about that, however busy the machine is. */
async function keep(ledger: LedgerClient, ...all: Waiter[]): Promise<void> {
  const { waiters } = keysOf(ledger, ledger.scope());
  const until = (await ledger.serverTime()) + 3_600_000;
  await ledger.redis.zadd(waiters, 'XX', ...all.flatMap(({ place }) => [until, place]));
}

const keysOf = ({ tag, tenant }: LedgerClient, scope: string) => ({
  budget: budgetKey(tag, DEFAULT_UNIT, scope),
  queue: waiterQueueKey(tag, DEFAULT_UNIT, scope),
  waiters: waitersKey(tag, tenant),
});

function leave(ledger: LedgerClient, { place, scope }: Waiter): Promise<string[]> {
  const { budget, queue, waiters } = keysOf(ledger, scope);
  return ledger.scripts.run('leave_waiters', [budget, queue, waiters], [place]);
}

async function renew(ledger: LedgerClient, ...all: Waiter[]): Promise<string[]> {
  const rest = all.flatMap(({ place, number, scope, key }) => [place, number, DEFAULT_UNIT, scope, key]);
  const { waiters } = keysOf(ledger, ledger.scope());
  const reply = await ledger.scripts.run('renew_waiters', [waiters], [ledger.tenant, 3000, ...rest]);
  await keep(ledger, ...all);
  return reply;
}

async function saturated(): Promise<{ ledger: LedgerClient; id: string }> {
  const ledger = await newLedger();
  await ledger.makeBudget({ allocated: 100 });
  return { ledger, id: (await ledger.hold({ amount: 100 })).id };
}

describe('a reserve that may wait', () => {
  test('is the same as any other if it has its funds, and leaves nothing behind', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    expect((await run(ledger, waiterOf(100))).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    const { queue, waiters } = keysOf(ledger, ledger.scope());
    expect(await ledger.redis.exists(queue, waiters)).toBe(0);
    await assertInvariants(ledger);
  });

  test('takes a place without an event, and gives it up with its reservation', async () => {
    const { ledger, id } = await saturated();
    const waiter = waiterOf(60);
    expect(await run(ledger, waiter)).toEqual(['WAITING', '1', ledger.scope()]);
    expect(await run(ledger, waiter)).toEqual(['WAITING', '1', ledger.scope()]);
    expect(await toldOf(ledger, () => ledger.release(id))).toEqual([waiter.place]);
    expect((await run(ledger, waiter)).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    const { budget, queue, waiters } = keysOf(ledger, ledger.scope());
    expect(await ledger.redis.exists(queue, waiters)).toBe(0);
    expect(await ledger.redis.hexists(budget, 'waiting')).toBe(0);
    await assertInvariants(ledger);
  });

  test('is refused without a trace if too many wait, or its time is up', async () => {
    const { ledger } = await saturated();
    await run(ledger, waiterOf(1));
    const before = await snapshot(ledger, 'events');
    expect(await run(ledger, waiterOf(1), { most: 1 })).toEqual(['BUDGET_EXCEEDED', ledger.scope(), '0']);
    expect(await run(ledger, waiterOf(1), { waitMs: 0 })).toEqual(['BUDGET_EXCEEDED', ledger.scope(), '0']);
    expect(await snapshot(ledger, 'events')).toEqual(before);
  });

  test('does not overtake an earlier one, however little it needs', async () => {
    const { ledger, id } = await saturated();
    const [large, small, late] = [waiterOf(90), waiterOf(10), waiterOf(10)];
    await run(ledger, large);
    await run(ledger, small);
    expect(await toldOf(ledger, () => ledger.commit(id, 50))).toEqual([]);
    for (const one of [small, late]) {
      expect((await run(ledger, one))[0]).toBe('WAITING');
    }
    expect(await run(ledger, late, { waitMs: 0 })).toEqual(['KEPT_FOR_WAITER', ledger.scope(), '50']);
    expect([large, small, late].map(({ number }) => number)).toEqual(['1', '2', '3']);
    // A reserve that does not wait can overtake.
    expect((await ledger.reserve({ amount: 10 }))[0]).toBe('ALLOW');
    expect(await toldOf(ledger, () => leave(ledger, large))).toEqual([small.place]);
    expect(await toldOf(ledger, () => run(ledger, small))).toEqual([late.place]);
    expect((await run(ledger, late))[0]).toBe('ALLOW');
  });

  test('moves to the queue of the next budget that lacks funds, and keeps its number there', async () => {
    const ledger = await newLedger();
    const subject = { workspace: 'a' };
    await ledger.makeBudget({ allocated: 100 });
    await ledger.makeBudget({ scope: ledger.scope(subject), allocated: 30 });
    await ledger.hold({ amount: 20, subject });
    const [first, second] = [waiterOf(20), waiterOf(15)];
    await run(ledger, first, { subject });
    await run(ledger, second, { subject });
    expect([first.scope, second.scope]).toEqual([ledger.scope(subject), ledger.scope(subject)]);
    await ledger.hold({ amount: 70 });
    await ledger.redis.hset(keysOf(ledger, first.scope).budget, { allocated: '70', remaining: '50' });
    const behind = waiterOf(30);
    await run(ledger, behind);
    expect(await toldOf(ledger, () => run(ledger, first, { subject }))).toEqual([second.place]);
    expect([first.number, first.scope]).toEqual(['1', ledger.scope()]);
    const { queue } = keysOf(ledger, ledger.scope());
    expect(await ledger.redis.zrange(queue, '0', '-1')).toEqual([first.place, behind.place]);
  });
});

describe('a budget', () => {
  test.each([
    ['it is smaller than the amount, at any scope', '59', undefined, 'BUDGET_EXCEEDED'],
    ['it is just large enough', '60', undefined, 'WAITING'],
    ['its period ends before the wait, and may bring more', '59', 30_000, 'WAITING'],
  ])('lets nobody wait in vain: if %s', async (_, allocated, endsInMs, word) => {
    const { ledger } = await saturated();
    const subject = { workspace: 'a' };
    await ledger.makeBudget({ scope: ledger.scope(subject), allocated: 60 });
    const { budget } = keysOf(ledger, ledger.scope(subject));
    await ledger.redis.hset(budget, { allocated, remaining: allocated });
    if (endsInMs !== undefined) {
      await ledger.redis.hset(budget, { period_end: (await ledger.serverTime()) + endsInMs, extras: '1' });
    }
    expect((await run(ledger, waiterOf(60), { subject, waitMs: 60_000 }))[0]).toBe(word);
  });

  test('that lacks funds keeps the place of a reserve, not one above, whose funds would not help', async () => {
    const { ledger, id } = await saturated();
    const subject = { workspace: 'a' };
    await ledger.makeBudget({ scope: ledger.scope(subject), allocated: 90 });
    await ledger.redis.hset(keysOf(ledger, ledger.scope(subject)).budget, { spent: '50', remaining: '40' });
    const [below, root] = [waiterOf(60), waiterOf(60)];
    expect(await run(ledger, below, { subject })).toEqual(['WAITING', '1', ledger.scope(subject)]);
    expect(await run(ledger, root)).toEqual(['WAITING', '2', ledger.scope()]);
    expect(await toldOf(ledger, () => ledger.release(id))).toEqual([root.place]);
    expect((await run(ledger, root))[0]).toBe('ALLOW');
  });

  test('that has become too small for a waiter names it at its renewal', async () => {
    const { ledger, id } = await saturated();
    const waiter = waiterOf(60);
    await run(ledger, waiter);
    await ledger.commit(id, 100);
    expect(await renew(ledger, waiter)).toEqual(['RENEWED']);
    await ledger.redis.hset(keysOf(ledger, ledger.scope()).budget, { allocated: '50', remaining: '-50' });
    expect(await renew(ledger, waiter)).toEqual(['RENEWED', waiter.place]);
    expect((await run(ledger, waiter))[0]).toBe('BUDGET_EXCEEDED');
  });
});

describe('places', () => {
  test('that only an expired hold keeps waiting are found by a renewal, and their reserve reclaims it', async () => {
    const { ledger, id } = await saturated();
    const waiter = waiterOf(60);
    await run(ledger, waiter);
    expect(await renew(ledger, waiter)).toEqual(['RENEWED']);
    await ledger.makeOverdue(id);
    expect(await renew(ledger, waiter)).toEqual(['RENEWED', waiter.place]);
    expect((await run(ledger, waiter))[0]).toBe('RECLAIMED');
    expect((await run(ledger, waiter)).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    await assertInvariants(ledger);
  });

  test('of dead instances lapse, and the next one is notified', async () => {
    const { ledger, id } = await saturated();
    const dead = Array.from({ length: 120 }, () => waiterOf(100, TWO));
    for (const one of dead) {
      await run(ledger, one, { most: 999 });
    }
    const next = waiterOf(10);
    await run(ledger, next, { most: 999 });
    const { queue, waiters } = keysOf(ledger, ledger.scope());
    await ledger.redis.zadd(waiters, ...dead.flatMap(({ place }) => ['1', place]));
    expect(await toldOf(ledger, () => ledger.release(id))).toEqual([next.place]);
    expect(await ledger.redis.zrange(queue, '0', '-1')).toEqual([next.place]);
    expect(await ledger.redis.zcard(waiters)).toBe(1);
  });

  test('are renewed, put back where they were if they are lost, and named when it is their turn', async () => {
    const { ledger, id } = await saturated();
    const [first, second] = [waiterOf(60), waiterOf(10)];
    await run(ledger, first);
    await run(ledger, second);
    const { budget, queue, waiters } = keysOf(ledger, ledger.scope());
    await ledger.redis.del(queue, waiters);
    await ledger.redis.hdel(budget, 'waiting');
    expect(await renew(ledger, second, first)).toEqual(['RENEWED']);
    expect(await ledger.redis.zrange(queue, '0', '-1')).toEqual([first.place, second.place]);
    expect(await ledger.redis.zcard(waiters)).toBe(2);
    expect(await toldOf(ledger, () => ledger.release(id))).toEqual([first.place]);
    expect(await renew(ledger, second)).toEqual(['RENEWED']);
    expect(await renew(ledger, second, first)).toEqual(['RENEWED', first.place]);
  });

  test('are named if their idempotency key has an outcome', async () => {
    const { ledger } = await saturated();
    const waiter = waiterOf(60);
    await run(ledger, waiter);
    await ledger.reserve({ key: waiter.key, amount: 60, dryRun: true });
    expect(await renew(ledger, waiter)).toEqual(['RENEWED', waiter.place]);
  });

  test('of a missing budget are not put back', async () => {
    const { ledger } = await saturated();
    const waiter = waiterOf(60);
    await run(ledger, waiter);
    const { budget, queue, waiters } = keysOf(ledger, ledger.scope());
    await ledger.redis.del(budget, queue, waiters);
    expect(await renew(ledger, waiter)).toEqual(['RENEWED']);
    expect(await ledger.redis.exists(budget, queue)).toBe(0);
  });
});

test('if nobody waits, no script looks for waiters', async () => {
  const { ledger, id } = await saturated();
  const commands = await commandsOf(ledger.redis, ledger.tag, async () => {
    await ledger.commit(id, 50);
    await ledger.release((await ledger.hold({ amount: 10 })).id);
  });
  expect(commands.flat().filter((word) => /[}](bw|waiters|arrivals)/.test(word))).toEqual([]);
});
