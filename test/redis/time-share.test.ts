import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { TimeShare } from '../../src/redis/queries.js';

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

/** Runs work of a millisecond as soon as it may, for so long. Returns the share of the time that it took. */
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

test('short work never pauses, and a share of all of the time never does', () => {
  const [half, all] = [new TimeShare(0.5), new TimeShare(1)];
  expect([workedFor(half, 90), workedFor(all, 5000)]).toEqual([1, 1]);
});

test('runs side by side count once, and what was not used is not saved up', () => {
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
  // 100 ms too many, of which 50 are free; at half of the time, that is as long again.
  expect(share.pauseMs()).toBe(100);
});
