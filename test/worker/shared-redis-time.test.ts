import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, expect, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/index.js';
import { SharedRedisTime } from '../../src/worker/index.js';
import { eventually } from '../support/eventually.js';

let pauses = 0;

beforeEach(() => {
  pauses = 0;
});

function shared(share: number): SharedRedisTime {
  return new SharedRedisTime({ share, paused: () => (pauses += 1) });
}

test('runs that never pause keep Redis busy for their share of the time, and their pauses are counted', async () => {
  const time = shared(0.25);
  const began = performance.now();
  let busyMs = 0;
  while (performance.now() < began + 2000) {
    await time.run('one', async () => {
      const startedAt = performance.now();
      await delay(2);
      busyMs += performance.now() - startedAt;
    });
  }
  // This includes the pause after the last of them.
  await time.run('one', () => Promise.resolve());
  // The time that is free at first is added.
  expect(busyMs).toBeLessThan(0.25 * (performance.now() - began) + 100);
  expect(busyMs).toBeGreaterThan(0.1 * (performance.now() - began));
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
  await Promise.all(all);
  expect(began.indexOf('quiet')).toBeLessThanOrEqual(2 * owners.length);
  expect(most).toBe(4);
  expect(pauses).toBe(0);
});

test('a pause of several owners is counted once', async () => {
  const time = shared(0.5);
  await time.run('one', () => delay(300));
  const late = ['a', 'b', 'c', 'd'].map((owner) => time.run(owner, () => Promise.resolve()));
  expect(pauses).toBe(0);
  await delay(1);
  expect(pauses).toBe(1);
  await Promise.all(late);
});

test('the wait for an unavailable Redis needs no pause', async () => {
  const time = shared(0.01);
  const failing = time.run('one', async () => {
    await delay(200);
    throw new StoreUnavailable('timeout');
  });
  await expect(failing).rejects.toThrow(StoreUnavailable);
  await time.run('one', () => delay(1));
  expect(pauses).toBe(0);
});

test('a pause ends when Redis turns out to be unavailable, because it is not needed then', async () => {
  const time = shared(0.01);
  let fail: (error: Error) => void = () => undefined;
  const failing = time.run('one', () => new Promise<void>((_, reject) => (fail = reject)));
  await time.run('two', () => delay(300));
  // This pause would last more than 20 seconds.
  const waiting = time.run('three', () => Promise.resolve());
  await eventually('it pauses', () => Promise.resolve(pauses === 1));
  fail(new StoreUnavailable('timeout'));
  await expect(failing).rejects.toThrow(StoreUnavailable);
  await waiting;
}, 15_000);
