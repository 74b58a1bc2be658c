import { describe, expect, test } from '@jest/globals';
import { ratiosOf, tableOf } from '../../bench/growth-page.mjs';
import { horizontal, labelHeights, pictureOf, tickStep } from '../../bench/growth-svg.mjs';

const curve = (xs: number[], ...lines: number[][]) => ({
  name: 'scopes',
  title: 'Scopes & more',
  xLabel: 'scopes',
  yLabel: 'µs',
  xs,
  lines: lines.map((ys, index) => ({ name: `line ${index}`, ys })),
});

/** The heights of the points on each line of a picture. */
function heightsOf(picture: string): number[][] {
  return [...picture.matchAll(/<g class="s\d">(.*)<\/g>/g)].map(([, line = '']) =>
    [...line.matchAll(/cy="([\d.]+)"/g)].map(([, y]) => Number(y)),
  );
}

describe('the picture of a curve', () => {
  test('has colours for light and dark pages, and its own background', () => {
    const picture = pictureOf(curve([1, 10], [5, 6]));
    const [light = '', dark = ''] = picture.split('@media (prefers-color-scheme: dark)');
    for (const rule of ['text {', '.back {', '.grid {', '.s0 {', '.s1 {', '.s2 {']) {
      expect(light).toContain(rule);
      expect(dark).toContain(rule);
    }
    expect(picture).toContain('<rect class="back"');
  });

  test('names the axes, the lines and every size', () => {
    const picture = pictureOf(curve([1, 1000], [5, 6], [7, 8]));
    for (const text of ['Scopes &amp; more: µs', 'scopes', 'line 0', 'line 1', '1', '1,000']) {
      expect(picture).toContain(`>${text}</text>`);
    }
  });

  test('is flat where the cost is flat, and rises where it rises', () => {
    const [flat = [], rising = []] = heightsOf(pictureOf(curve([1, 10, 100], [50, 50, 50], [10, 20, 40])));
    expect(new Set(flat).size).toBe(1);
    expect(rising).toEqual([...rising].sort((a, b) => b - a));
  });

  test('starts at zero, so that a small change looks small', () => {
    expect(pictureOf(curve([1, 10], [100, 101]))).toContain('text-anchor="end">0</text>');
  });

  test.each([
    [0.4, 0.1],
    [5, 1],
    [45, 10],
    [99, 20],
    [101, 50],
    [260, 100],
  ])('has ticks for values up to %d at each %d', (highest, step) => {
    expect(tickStep(highest)).toBeCloseTo(step);
    expect(tickStep(highest) * 5).toBeGreaterThanOrEqual(highest);
  });

  test('has decades at equal distances, and zero a decade below the rest', () => {
    const across = horizontal(curve([0, 1, 10, 100]));
    expect([0, 1, 10, 100].map(across)).toEqual([0, 1 / 3, 2 / 3, 1]);
    const linear = horizontal({ ...curve([1, 2, 3]), isLinear: true });
    expect([1, 2, 3].map(linear)).toEqual([0, 0.5, 1]);
  });

  test('keeps the names of lines apart that end at the same height', () => {
    expect(labelHeights([100, 100])).toEqual([100, 116]);
    expect(labelHeights([100, 90, 95])).toEqual([122, 90, 106]);
    expect(labelHeights([50, 100])).toEqual([50, 100]);
  });
});

test('the table of a curve has a row for each size, and the text compares the last size with the first', () => {
  const measured = curve([1, 1000], [5, 6], [70.26, 140.52]);
  expect(tableOf(measured).rows).toEqual([
    ['1', '5.00', '70.3'],
    ['1,000', '6.00', '141'],
  ]);
  expect(ratiosOf(measured)).toEqual(['line 0 × 1.20', 'line 1 × 2.00']);
});
