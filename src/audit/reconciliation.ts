/**
 * Decides whether a budget's `reserved` equals the sum of its live reservations, while both keep changing.
 *
 * First the budgets are read several times, each time at an instant T by the time of Redis. Then the tenant's reservations are walked
 * in batches while traffic continues. What was live at T can still be determined: records of ended reservations stay, with the instants
 * of their creation and end, and amounts never change. The only uncertainty is about reservations created or ended in the same
 * millisecond as T: the budget that was read may or may not include them. So each reading gives a range for the drift, from all of them
 * included to none. The true drift is in the ranges of all readings. If all ranges include 0, no drift is proven and none is reported.
 */
export interface Reading {
  readonly atMs: number;
  /** Undefined where the budget's record has no valid figure. */
  readonly figures: Readonly<Record<Figure, bigint | undefined>>;
  readonly status: string;
}

export const FIGURES = ['remaining', 'reserved', 'spent', 'allocated', 'debt'] as const;
export type Figure = (typeof FIGURES)[number];

/** A reservation created or ended while the budgets were read. */
export interface MovingHold {
  readonly bornMs: number;
  /** Undefined while it lives. */
  readonly endedMs: number | undefined;
  readonly amount: bigint;
}

export interface Holds {
  /** The sum of the holds that were live during all readings. */
  readonly steady: bigint;
  readonly moving: readonly MovingHold[];
}

export interface Drift {
  readonly kind: 'RESERVED' | 'INVARIANT' | 'UNREADABLE_BUDGET' | 'MISSING_BUDGET';
  readonly stored?: Reading;
  /** RESERVED: the sum of the live reservations. INVARIANT: what `remaining` should be. */
  readonly expected?: bigint;
}

/** What is wrong with one budget. */
export function driftOf(readings: readonly Reading[], holds: Holds): Drift | undefined {
  const last = readings.at(-1);
  if (last === undefined) {
    return { kind: 'MISSING_BUDGET', expected: holds.steady };
  }
  const unreadable = readings.find(({ figures }) => FIGURES.some((name) => figures[name] === undefined));
  if (unreadable !== undefined) {
    return { kind: 'UNREADABLE_BUDGET', stored: unreadable };
  }
  const unbalanced = readings.find((reading) => figure(reading, 'remaining') !== remainingOf(reading));
  if (unbalanced !== undefined) {
    return { kind: 'INVARIANT', stored: unbalanced, expected: remainingOf(unbalanced) };
  }
  let [low, high]: [bigint | undefined, bigint | undefined] = [undefined, undefined];
  for (const reading of readings) {
    const [certain, possible] = liveAt(reading.atMs, holds);
    const drift = figure(reading, 'reserved') - certain;
    high = high === undefined || drift < high ? drift : high;
    low = low === undefined || drift - possible > low ? drift - possible : low;
  }
  const [least, most] = [low as bigint, high as bigint];
  if (least <= 0n && most >= 0n) {
    return undefined;
  }
  return { kind: 'RESERVED', stored: last, expected: figure(last, 'reserved') - (least > 0n ? least : most) };
}

/** The sum of holds that were certainly live at an instant, and of those that may have been. */
function liveAt(atMs: number, { steady, moving }: Holds): [certain: bigint, possible: bigint] {
  let [certain, possible] = [steady, 0n];
  for (const { bornMs, endedMs = Infinity, amount } of moving) {
    if (bornMs < atMs && endedMs > atMs) {
      certain += amount;
    } else if (bornMs <= atMs && endedMs >= atMs) {
      possible += amount;
    }
  }
  return [certain, possible];
}

function figure({ figures }: Reading, name: Figure): bigint {
  return figures[name] as bigint;
}

function remainingOf(reading: Reading): bigint {
  return (
    figure(reading, 'allocated') -
    figure(reading, 'spent') -
    figure(reading, 'reserved') -
    figure(reading, 'debt')
  );
}
