import { expect, test } from '@jest/globals';
import { Changes } from '../../src/redis/changes.js';
import { type Claim, ConcurrencyLimiter } from '../../src/redis/concurrency-limiter.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';

const claim = (owner: string, slow = false): Claim => ({ owner, slow });

/** The owners of the claims that have been admitted so far, in order. */
function admissions(limiter: ConcurrencyLimiter, owners: readonly string[]): string[] {
  const admitted: string[] = [];
  for (const owner of owners) {
    void limiter
      .acquire(claim(owner))
      .then((result) => (result === 'acquired' ? admitted.push(owner) : undefined));
  }
  return admitted;
}

test('the places of one owner are bounded, and the others stay free', () => {
  const limiter = new ConcurrencyLimiter({ total: 10, perOwner: 2 });
  expect(['a', 'a', 'a', 'b'].map((owner) => limiter.tryAcquire(claim(owner)))).toEqual([
    true,
    true,
    false,
    true,
  ]);
  limiter.release(claim('a'));
  expect(limiter.tryAcquire(claim('a'))).toBe(true);
});

test('slow claims leave half of all places to the others', async () => {
  const limiter = new ConcurrencyLimiter({ total: 4, perOwner: 4 });
  expect(['a', 'b', 'c'].map((owner) => limiter.tryAcquire(claim(owner, true)))).toEqual([true, true, false]);
  const waiting = limiter.acquire(claim('c', true));
  expect(['d', 'e', 'f'].map((owner) => limiter.tryAcquire(claim(owner)))).toEqual([true, true, false]);
  limiter.release(claim('d'));
  // There is a free place, but not for a slow claim.
  expect(limiter.inUse).toBe(3);
  limiter.release(claim('a', true));
  expect(await waiting).toBe('acquired');
  expect(limiter.inUse).toBe(3);
});

test('a slot that lets two in admits both: one that its owner held up, and one that the slow claims did', async () => {
  const limiter = new ConcurrencyLimiter({ total: 4, perOwner: 2 });
  const taken = [claim('x', true), claim('x'), claim('y', true)];
  expect(taken.map((one) => limiter.tryAcquire(one))).toEqual([true, true, true]);
  const waiting = [limiter.acquire(claim('x')), limiter.acquire(claim('z', true))];
  expect([limiter.inUse, limiter.waiting]).toEqual([3, 2]);
  limiter.release(claim('x', true));
  expect([limiter.inUse, limiter.waiting]).toEqual([4, 0]);
  expect(await Promise.all(waiting)).toEqual(['acquired', 'acquired']);
});

test('waiting owners take turns, however long the queue of one of them is', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryAcquire(claim('first'))).toBe(true);
  const admitted = admissions(limiter, ['a', 'a', 'a', 'b', 'c']);
  for (const owner of ['first', 'a', 'b', 'c', 'a']) {
    limiter.release(claim(owner));
    await Promise.resolve();
  }
  await new Promise(setImmediate);
  expect(admitted).toEqual(['a', 'b', 'c', 'a', 'a']);
  expect(limiter.waiting).toBe(0);
});

test('an owner whose queue is full is refused immediately, and another one may still wait', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1, waitingPerOwner: 2 });
  expect(limiter.tryAcquire(claim('a'))).toBe(true);
  const admitted = admissions(limiter, ['a', 'a', 'b']);
  expect(await limiter.acquire(claim('a'))).toBe('full');
  expect(limiter.waiting).toBe(3);
  limiter.release(claim('a'));
  await new Promise(setImmediate);
  expect(admitted).toEqual(['a']);
});

test('a wait that takes too long ends, and occupies no place later', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryAcquire(claim('a'))).toBe(true);
  expect(await limiter.acquire(claim('b'), { waitMs: 0 })).toBe('full');
  expect(await limiter.acquire(claim('b'), { waitMs: 10 })).toBe('late');
  limiter.release(claim('a'));
  expect([limiter.inUse, limiter.waiting]).toEqual([0, 0]);
});

test('a client that disconnects leaves the queue', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  const leaving = new AbortController();
  expect(limiter.tryAcquire(claim('a'))).toBe(true);
  const left = limiter.acquire(claim('b'), { signal: leaving.signal });
  const stayed = limiter.acquire(claim('b'));
  leaving.abort();
  expect([await left, await limiter.acquire(claim('b'), { signal: leaving.signal })]).toEqual([
    'gone',
    'gone',
  ]);
  limiter.release(claim('a'));
  expect(await stayed).toBe('acquired');
});

test('a closed limiter admits nothing', async () => {
  const limiter = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  expect(limiter.tryAcquire(claim('a'))).toBe(true);
  const waiting = limiter.acquire(claim('b'));
  expect(limiter.longestWaitMs(performance.now() + 50)).toBeGreaterThanOrEqual(50);
  limiter.close();
  expect([await waiting, await limiter.acquire(claim('c')), limiter.tryAcquire(claim('d'))]).toEqual([
    'closed',
    'closed',
    false,
  ]);
});

test('a change that waits too long for the others of its tenant is refused and counted', async () => {
  const metrics = new MetricsRegistry({ metricsTenantLabel: true });
  const changes = new Changes(metrics, 1);
  const { signal } = new AbortController();
  const end = await changes.admit('a', signal);
  await expect(changes.admit('a', signal)).rejects.toMatchObject({
    code: 'LIMIT_EXCEEDED',
    retryAfterS: 1,
    message: 'too many changes at the same time: those of a tenant run one after the other; retry in 1 s',
  });
  await changes.admit('b', signal);
  end();
  await changes.admit('a', signal);
  expect(await metrics.registry.metrics()).toMatch(/^holdfast_changes_refused_total\{.*\} 1$/m);
});
