import { expect, test } from '@jest/globals';
import { RowQuota } from '../../src/audit/audit-log/row-quota.js';

test('a window admits a limited number of rows per source, and counts the others', () => {
  const quota = new RowQuota({ perSource: 2, overall: 5 });
  expect(['a', 'a', 'a', 'b', 'b', 'b', 'b', 'c', 'd', 'd'].map((source) => quota.admit(source))).toEqual([
    true,
    true,
    false,
    true,
    true,
    false,
    false,
    true,
    false,
    false,
  ]);
  expect(quota.endWindow()).toEqual([
    { source: 'b', count: 2 },
    { source: 'd', count: 2 },
    { source: 'a', count: 1 },
  ]);
  expect(quota.endWindow()).toEqual([]);
  expect(quota.admit('a')).toBe(true);
});

test('a flood from 100,000 sources takes no more memory than one from a thousand, and a few rows in total', () => {
  const quota = new RowQuota({ perSource: 5, overall: 60 });
  let admitted = 0;
  for (let round = 0; round < 2; round += 1) {
    for (let source = 0; source < 100_000; source += 1) {
      admitted += quota.admit(`10.${source >> 16}.${(source >> 8) & 255}.${source & 255}`) ? 1 : 0;
    }
  }
  expect(admitted).toBe(60);
  const { used, excess } = quota as unknown as { used: Map<string, number>; excess: Map<string, number> };
  expect(used.size + excess.size).toBeLessThanOrEqual(2000);
  const told = quota.endWindow();
  expect(told).toHaveLength(11);
  expect(told.reduce((sum, { count }) => sum + count, 0)).toBe(200_000 - 60);
  expect(told.at(-1)?.source).toBeUndefined();
});
