/**
 * Whether a budget's `reserved` is what its live reservations add up to, decided while both change.
 *
 * The budgets are read several times, each time at an instant T of Redis' clock. Then the tenant's reservations are walked, a
 * stretch at a time, while traffic goes on. What was live at T can be told afterwards: the records of ended reservations stay,
 * with the instants of their creation and their end, and amounts never change. Only what came or went in the very millisecond T
 * may or may not have been counted in the budget that was read. So each reading gives the drift as a range, from all of these
 * counted to none. A true drift lies in the ranges of all readings; where 0 does, nothing is proven and nothing is reported.
 */
export interface Reading {
  readonly atMs: number;
  /** Undefined where the budget's record has no such figure. */
  readonly figures: Readonly<Record<Figure, bigint | undefined>>;
  readonly status: string;
}

export const FIGURES = ['remaining', 'reserved', 'spent', 'allocated', 'debt'] as const;
export type Figure = (typeof FIGURES)[number];

/** A reservation that came or went while the budgets were read. */
export interface MovingHold {
  readonly bornMs: number;
  /** Undefined while it lives. */
  readonly endedMs: number | undefined;
  readonly amount: bigint;
}

export interface Holds {
  /** What lived through all readings. */
  readonly steady: bigint;
  readonly moving: readonly MovingHold[];
}

export interface Drift {
  readonly kind: 'RESERVED' | 'INVARIANT' | 'UNREADABLE_BUDGET' | 'MISSING_BUDGET';
  readonly stored?: Reading;
  /** RESERVED: what the live reservations add up to. INVARIANT: what `remaining` should be. */
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

/** What was live at an instant for certain, and what may have been beside it. */
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
