import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';

/** A further limit of a budget: what may be used of it in a window of time. */
export interface ModelWindow {
  readonly name: string;
  readonly limit: bigint;
  readonly spent: bigint;
  readonly starts: number;
  readonly ends: number;
  /** The ends of the windows to come. */
  readonly plan: readonly number[];
  /** From when on the job asks for a new plan. */
  readonly planAt: number | undefined;
}

/** When a plan must be made again: before half of it is used up. */
export const planAtOf = (plan: readonly number[]): number | undefined => plan[Math.ceil(plan.length / 2) - 1];

/** The window that an instant is in, as far as it is planned. */
export function windowAt(window: ModelWindow, now: number): ModelWindow {
  const [next, ...plan] = window.plan;
  return window.ends > now || next === undefined
    ? window
    : windowAt({ ...window, spent: 0n, starts: window.ends, ends: next, plan }, now);
}

/** What remains in a window of a budget that holds so much. */
export function roomOf({ limit, spent }: ModelWindow, reserved: bigint): bigint {
  const room = limit - spent - reserved;
  return room < INT64_MIN ? INT64_MIN : room;
}

/** The windows after a charge, or undefined if a figure would leave int64. */
export function chargedWindows(
  windows: readonly ModelWindow[] | undefined,
  amount: bigint,
): ModelWindow[] | undefined {
  const charged = windows?.map((window) => ({ ...window, spent: window.spent + amount }));
  return charged?.some(({ spent }) => spent > INT64_MAX) === true ? undefined : charged;
}
