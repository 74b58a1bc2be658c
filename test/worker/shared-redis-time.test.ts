import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/index.js';
import { SharedRedisTime } from '../../src/worker/index.js';

let pauses = 0;

// The time of a busy machine must not count.
beforeEach(() => {
  pauses = 0;
  jest.useFakeTimers();
  syncBuiltinESMExports();
});
afterEach(() => {
  jest.useRealTimers();
  syncBuiltinESMExports();
});

/** Lets time pass until something has ended. */
async function ended<T>(work: Promise<T>): Promise<T> {
  let isOver = false;
  const over = (): boolean => (isOver = true);
  work.then(over, over);
  while (!isOver) {
    await jest.advanceTimersByTimeAsync(1);
  }
  return work;
}

function shared(share: number): SharedRedisTime {
  return new SharedRedisTime({ share, paused: () => (pauses += 1) });
}

test('runs that never pause keep Redis busy for their share of the time, and their pauses are counted', async () => {
  const time = shared(0.25);
  const began = performance.now();
  let busyMs = 0;
  while (performance.now() < began + 2000) {
    await ended(time.run('one', () => delay(2)));
    busyMs += 2;
  }
  // This includes the pause after the last of them.
  await ended(time.run('one', () => Promise.resolve()));
  // The time that is free at first is added.
  expect(busyMs).toBeLessThan(0.25 * (performance.now() - began) + 100);
  expect(busyMs).toBeGreaterThan(0.2 * (performance.now() - began));
  expect(pauses).toBeGreaterThan(10);
});

test('owners take turns with one run each, and at most four run at once', async () => {
  const time = shared(1);
  const began: string[] = [];
  const running: string[] = [];
  let most = 0;
  const run = (owner: string): Promise<void> =>
    time.run(owner, async () => {
      began.push(owner);
      expect(running).not.toContain(owner);
      running.push(owner);
      most = Math.max(most, running.length);
      await delay(1);
      running.splice(running.indexOf(owner), 1);
    });
  const owners = ['a', 'b', 'c', 'd', 'e'];
  const all = [...owners.flatMap((owner) => Array.from({ length: 6 }, () => run(owner))), run('quiet')];
  await ended(Promise.all(all));
  expect(began.indexOf('quiet')).toBeLessThanOrEqual(2 * owners.length);
  expect(most).toBe(4);
  expect(pauses).toBe(0);
});

test('a pause of several owners is counted once', async () => {
  const time = shared(0.5);
  await ended(time.run('one', () => delay(300)));
  const late = ['a', 'b', 'c', 'd'].map((owner) => time.run(owner, () => Promise.resolve()));
  expect(pauses).toBe(0);
  await ended(Promise.all(late));
  expect(pauses).toBe(1);
});

test('the wait for an unavailable Redis needs no pause', async () => {
  const time = shared(0.01);
  const failing = time.run('one', async () => {
    await delay(200);
    throw new StoreUnavailable('timeout');
  });
  await expect(ended(failing)).rejects.toThrow(StoreUnavailable);
  await ended(time.run('one', () => delay(1)));
  expect(pauses).toBe(0);
});

test('a pause ends when Redis turns out to be unavailable, because it is not needed then', async () => {
  const time = shared(0.01);
  let fail: (error: Error) => void = () => undefined;
  const failing = time.run('one', () => new Promise<void>((_, reject) => (fail = reject)));
  await ended(time.run('two', () => delay(300)));
  // This pause would last more than 20 seconds.
  const waiting = time.run('three', () => Promise.resolve());
  await jest.advanceTimersByTimeAsync(1);
  expect(pauses).toBe(1);
  fail(new StoreUnavailable('timeout'));
  await expect(failing).rejects.toThrow(StoreUnavailable);
  // Without another moment.
  await waiting;
});
