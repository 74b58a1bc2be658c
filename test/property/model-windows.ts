import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';

/** A further limit of a budget: the amount that may be used in a window of time. */
export interface ModelWindow {
  readonly name: string;
  readonly limit: bigint;
  readonly spent: bigint;
  readonly starts: number;
  readonly ends: number;
  /** The ends of future windows. */
  readonly plan: readonly number[];
  /** When the job starts to request new boundaries. */
  readonly planAt: number | undefined;
}

/** When new boundaries must be planned: before half of the existing ones are used up. */
export const planAtOf = (plan: readonly number[]): number | undefined => plan[Math.ceil(plan.length / 2) - 1];

/** The window that contains an instant, as far as boundaries are planned. */
export function windowAt(window: ModelWindow, now: number): ModelWindow {
  const [next, ...plan] = window.plan;
  return window.ends > now || next === undefined
    ? window
    : windowAt({ ...window, spent: 0n, starts: window.ends, ends: next, plan }, now);
}

/** The remaining amount in a window of a budget with this reserved amount. */
export function roomOf({ limit, spent }: ModelWindow, reserved: bigint): bigint {
  const room = limit - spent - reserved;
  return room < INT64_MIN ? INT64_MIN : room;
}

/** The windows after a charge, or undefined if a figure would exceed int64. */
export function chargedWindows(
  windows: readonly ModelWindow[] | undefined,
  amount: bigint,
): ModelWindow[] | undefined {
  const charged = windows?.map((window) => ({ ...window, spent: window.spent + amount }));
  return charged?.some(({ spent }) => spent > INT64_MAX) === true ? undefined : charged;
}
