import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { driftOf, type MovingHold, type Reading } from '../../src/audit/tenant-reader.js';

function reading(atMs: number, reserved: bigint): Reading {
  return {
    atMs,
    status: 'ACTIVE',
    figures: { remaining: 1000n - reserved, reserved, spent: 0n, allocated: 1000n, debt: 0n },
  };
}

const hold = (bornMs: number, endedMs: number | undefined, amount: bigint): MovingHold => ({
  bornMs,
  endedMs,
  amount,
});

describe('a drift', () => {
  test('is what no reading explains', () => {
    expect(driftOf([reading(10, 7n)], { steady: 7n, moving: [] })).toBeUndefined();
    expect(driftOf([reading(10, 9n)], { steady: 7n, moving: [] })).toMatchObject({
      kind: 'RESERVED',
      expected: 7n,
    });
    expect(driftOf([reading(10, 5n)], { steady: 7n, moving: [] })).toMatchObject({
      kind: 'RESERVED',
      expected: 7n,
    });
    expect(
      driftOf([reading(10, 9n)], {
        steady: 7n,
        moving: [hold(9, 11, 2n), hold(11, undefined, 5n), hold(8, 9, 3n)],
      }),
    ).toBeUndefined();
  });

  test('is not proven if a hold of the same millisecond may or may not have been counted', () => {
    expect(driftOf([reading(10, 9n)], { steady: 7n, moving: [hold(10, 12, 2n)] })).toBeUndefined();
    expect(driftOf([reading(10, 7n)], { steady: 7n, moving: [hold(9, 10, 2n)] })).toBeUndefined();
    expect(driftOf([reading(10, 10n)], { steady: 7n, moving: [hold(10, 12, 2n)] })).toMatchObject({
      kind: 'RESERVED',
    });
    // Another reading, in whose millisecond nothing happened, settles it.
    expect(
      driftOf([reading(10, 9n), reading(11, 10n)], { steady: 7n, moving: [hold(10, 12, 2n)] }),
    ).toMatchObject({ kind: 'RESERVED', expected: 9n });
  });

  test('is not proven by instants that may be wrong, because the clock has stepped back', () => {
    const moving = [hold(8, 11, 2n), hold(11, undefined, 5n)];
    for (const reserved of [7n, 9n, 12n, 14n]) {
      expect(driftOf([reading(10, reserved)], { steady: 7n, moving, isUntimed: true })).toBeUndefined();
    }
    expect(driftOf([reading(10, 15n)], { steady: 7n, moving, isUntimed: true })).toMatchObject({
      kind: 'RESERVED',
    });
  });

  test('is never found in a balanced ledger, in any order of changes within a millisecond', () => {
    const steps = fc.array(
      fc.record({
        ms: fc.integer({ min: 0, max: 2 }),
        amount: fc.bigInt({ min: 1n, max: 9n }),
        ends: fc.integer({ min: 0, max: 5 }),
        read: fc.boolean(),
      }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(steps, (script) => {
        let [now, reserved] = [1, 0n];
        const holds: { bornMs: number; endedMs: number | undefined; amount: bigint }[] = [];
        const readings: Reading[] = [];
        for (const { ms, amount, ends, read } of script) {
          now += ms;
          const live = holds.filter(({ endedMs }) => endedMs === undefined)[ends];
          if (live === undefined) {
            holds.push({ bornMs: now, endedMs: undefined, amount });
            reserved += amount;
          } else {
            live.endedMs = now;
            reserved -= live.amount;
          }
          if (read) {
            readings.push(reading(now, reserved));
          }
        }
        readings.push(reading(now, reserved));
        expect(driftOf(readings, { steady: 0n, moving: holds })).toBeUndefined();
      }),
    );
  });
});
