import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { TimeShare } from '../../src/redis/queries.js';

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

/**
 * Runs work of one millisecond whenever allowed, for the given time. Returns the share of the time that it
 * took.
 */
function workedFor(share: TimeShare, ms: number): number {
  const until = performance.now() + ms;
  let worked = 0;
  while (performance.now() < until) {
    const pauseMs = Math.ceil(share.pauseMs());
    if (pauseMs > 0) {
      jest.advanceTimersByTime(pauseMs);
      continue;
    }
    share.begin();
    jest.advanceTimersByTime(1);
    share.end();
    worked += 1;
  }
  return worked / ms;
}

test.each([10, 50, 90])('work that never pauses takes %d %% of the time', (percent) => {
  const share = new TimeShare(percent / 100);
  workedFor(share, 1000);
  expect(workedFor(share, 10_000) * 100).toBeCloseTo(percent, 0);
});

test('short work never pauses, and neither does work with the full share', () => {
  const [half, all] = [new TimeShare(0.5), new TimeShare(1)];
  expect([workedFor(half, 90), workedFor(all, 5000)]).toEqual([1, 1]);
});

test('parallel runs count once, and unused time is not saved up', () => {
  const share = new TimeShare(0.5);
  share.begin();
  share.begin();
  jest.advanceTimersByTime(100);
  share.end();
  share.end();
  expect(share.pauseMs()).toBe(0);
  jest.advanceTimersByTime(60_000);
  share.begin();
  jest.advanceTimersByTime(200);
  share.end();
  // 100 ms over the share, of which 50 are free; at a share of one half, the pause doubles the other 50.
  expect(share.pauseMs()).toBe(100);
});
