import { expect, test } from '@jest/globals';
import { ratiosOf, tableOf } from '../../bench/growth-page.mjs';

const curve = (xs: number[], ...lines: number[][]) => ({
  name: 'scopes',
  title: 'Scopes',
  xLabel: 'scopes',
  yLabel: 'µs',
  xs,
  lines: lines.map((ys, index) => ({ name: `line ${index}`, ys })),
});

test('the table of a curve has a row for each size, and the text compares the last size with the first', () => {
  const measured = curve([1, 1000], [5, 6], [70.26, 140.52]);
  expect(tableOf(measured).rows).toEqual([
    ['1', '5.00', '70.3'],
    ['1,000', '6.00', '141'],
  ]);
  expect(ratiosOf(measured)).toEqual(['line 0 × 1.20', 'line 1 × 2.00']);
});
