import { expect, test } from '@jest/globals';
import { type Claim, ConcurrencyLimiter } from '../../src/redis/concurrency-limiter.js';

const claim = (owner: string, slow = false): Claim => ({ owner, slow });

/** Which of the waiting claims were admitted so far, in order. */
function admissions(limiter: ConcurrencyLimiter, owners: readonly string[]): string[] {
  const admitted: string[] = [];
  for (const owner of owners) {
    void limiter.take(claim(owner)).then((result) => (result === 'taken' ? admitted.push(owner) : undefined));
  }
  return admitted;
}

test('the places of one owner are bounded, and the others stay free', () => {
  const limiter = new ConcurrencyLimiter({ total: 10, perOwner: 2 });
  expect(['a', 'a', 'a', 'b'].map((owner) => limiter.tryTake(claim(owner)))).toEqual([
    true,
    true,
    false,
    true,
  ]);
  limiter.giveBack(claim('a'));
  expect(limiter.tryTake(claim('a'))).toBe(true);
});

test('slow claims leave half of all places to the others', async () => {
  const limiter = new ConcurrencyLimiter({ total: 4, perOwner: 4 });
  expect(['a', 'b', 'c'].map((owner) => limiter.tryTake(claim(owner, true)))).toEqual([true, true, false]);
  const waiting = limiter.take(claim('c', true));
  expect(['d', 'e', 'f'].map((owner) => limiter.tryTake(claim(owner)))).toEqual([true, true, false]);
  limiter.giveBack(claim('d'));
  // A place is free, but not for a slow claim.
  expect(limiter.inUse).toBe(3);
  limiter.giveBack(claim('a', true));
  expect(await waiting).toBe('taken');
  expect(limiter.inUse).toBe(3);
});

test('owners that wait get their turns one after the other, however long the queue of one of them is', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryTake(claim('first'))).toBe(true);
  const admitted = admissions(limiter, ['a', 'a', 'a', 'b', 'c']);
  for (const owner of ['first', 'a', 'b', 'c', 'a']) {
    limiter.giveBack(claim(owner));
    await Promise.resolve();
  }
  await new Promise(setImmediate);
  expect(admitted).toEqual(['a', 'b', 'c', 'a', 'a']);
  expect(limiter.waiting).toBe(0);
});

test('an owner whose queue is full is refused at once, and another one may still wait', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1, waitingPerOwner: 2 });
  expect(limiter.tryTake(claim('a'))).toBe(true);
  const admitted = admissions(limiter, ['a', 'a', 'b']);
  expect(await limiter.take(claim('a'))).toBe('full');
  expect(limiter.waiting).toBe(3);
  limiter.giveBack(claim('a'));
  await new Promise(setImmediate);
  expect(admitted).toEqual(['a']);
});

test('a wait that takes too long ends, and takes no place later', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryTake(claim('a'))).toBe(true);
  expect(await limiter.take(claim('b'), { waitMs: 0 })).toBe('full');
  expect(await limiter.take(claim('b'), { waitMs: 10 })).toBe('late');
  limiter.giveBack(claim('a'));
  expect([limiter.inUse, limiter.waiting]).toEqual([0, 0]);
});

test('somebody who goes away leaves the queue', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  const leaving = new AbortController();
  expect(limiter.tryTake(claim('a'))).toBe(true);
  const left = limiter.take(claim('b'), { signal: leaving.signal });
  const stayed = limiter.take(claim('b'));
  leaving.abort();
  expect([await left, await limiter.take(claim('b'), { signal: leaving.signal })]).toEqual(['gone', 'gone']);
  limiter.giveBack(claim('a'));
  expect(await stayed).toBe('taken');
});

test('nobody gets a place once the limiter is closed', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryTake(claim('a'))).toBe(true);
  const waiting = limiter.take(claim('b'));
  expect(limiter.longestWaitMs(performance.now() + 50)).toBeGreaterThanOrEqual(50);
  limiter.close();
  expect([await waiting, await limiter.take(claim('c')), limiter.tryTake(claim('d'))]).toEqual([
    'closed',
    'closed',
    false,
  ]);
});
