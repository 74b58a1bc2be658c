import { expect, test } from '@jest/globals';
import { msLeft } from '../../scripts/test-reporter.mjs';

test('before the first file has ended, the time left is what the files are known to take', () => {
  expect(msLeft({ done: 0, left: 60_000, workers: 4, elapsedMs: 3000 })).toBe(15_000);
});

test('a run that is slower than expected takes longer for the rest, too', () => {
  expect(msLeft({ done: 10_000, left: 30_000, workers: 2, elapsedMs: 10_000 })).toBe(30_000);
});
