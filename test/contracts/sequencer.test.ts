import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import LongestFirst, { LONGEST } from '../support/jest/sequencer.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
type Tests = Parameters<LongestFirst['sort']>[0];

describe('the order of test files', () => {
  test('begins with the longest ones, and leaves none out', async () => {
    const paths = [
      'test/http/budgets.test.ts',
      ...[...LONGEST].reverse(),
      'test/audit/reservation-history.test.ts',
      'test/runs/other/runs.test.ts',
    ].map((file) => ROOT + file);
    const context = {
      config: { id: 'order', cacheDirectory: ROOT, haste: {} },
      hasteFS: { getSize: () => 1 },
    };
    const tests = paths.map((path) => ({ path, context })) as unknown as Tests;
    const order = (await new LongestFirst({} as never).sort(tests)).map(({ path }) => path);
    expect(order.slice(0, LONGEST.length)).toEqual(LONGEST.map((file) => ROOT + file));
    expect([...order].sort()).toEqual([...paths].sort());
  });

  test('expects that one of them takes longer than others, unless their time is known', () => {
    const expected = (path: string, duration?: number): number =>
      LongestFirst.expectedMs({ path: ROOT + path, ...(duration !== undefined && { duration }) } as never);
    expect(expected(LONGEST[0] as string)).toBeGreaterThan(expected('test/http/budgets.test.ts'));
    expect(expected(LONGEST[0] as string, 100)).toBe(100);
  });

  test('names files that exist', () => {
    expect(LONGEST.filter((file) => !existsSync(ROOT + file))).toEqual([]);
  });
});
