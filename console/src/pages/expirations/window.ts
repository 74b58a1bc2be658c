import { DAY_MS as DAY } from '../../../../src/ledger/time';

/** Both ends belong to a window, as they do in the API. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const SLOTS = [
  SECOND,
  5 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  7 * DAY,
  30 * DAY,
];
const MAX_BARS = 120;
const MIN_WINDOW = 10 * SECOND;
const MAX_WINDOW = 366 * DAY;

/** Windows that end now. */
export const LAST: Readonly<Record<string, { readonly label: string; readonly ms: number }>> = {
  '1h': { label: 'Last hour', ms: HOUR },
  '24h': { label: '24 hours', ms: DAY },
  '7d': { label: '7 days', ms: 7 * DAY },
  '30d': { label: '30 days', ms: 30 * DAY },
};
export const DEFAULT_LAST = '24h';

const lengthOf = ({ fromMs, toMs }: Window): number => toMs - fromMs + 1;

/** The length of a bar, so that there are at most 120 of them. */
export function slotOf(window: Window): number {
  const length = lengthOf(window);
  return SLOTS.find((slot) => length / slot <= MAX_BARS) ?? Math.ceil(length / MAX_BARS);
}

export const barsOf = (window: Window): number => Math.ceil(lengthOf(window) / slotOf(window));

export interface WindowSearch {
  readonly last: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
}

/** The window of an address. Bars of a window that ends now begin at whole minutes, hours and so on. */
export function windowOf({ last, from, to }: WindowSearch, nowMs: number): Window {
  const [fromMs, toMs] = [Date.parse(from ?? ''), Date.parse(to ?? '')];
  if (fromMs <= toMs) {
    return { fromMs, toMs };
  }
  const length = (LAST[last ?? ''] ?? LAST[DEFAULT_LAST])?.ms ?? DAY;
  const slot = slotOf({ fromMs: 1, toMs: length });
  const end = Math.ceil((nowMs + 1) / slot) * slot;
  return { fromMs: end - length, toMs: end - 1 };
}

/** The window from one bar to another, both included. */
export function barsWindow(window: Window, one: number, other: number): Window {
  const slot = slotOf(window);
  const fromMs = window.fromMs + Math.min(one, other) * slot;
  const toMs = Math.min(window.toMs, window.fromMs + (Math.max(one, other) + 1) * slot - 1);
  return { fromMs, toMs };
}

/** A window with the same middle. A `factor` above 1 shows more. */
export function zoomed(window: Window, factor: number): Window {
  const length = Math.round(Math.min(MAX_WINDOW, Math.max(MIN_WINDOW, lengthOf(window) * factor)));
  const fromMs = Math.round((window.fromMs + window.toMs + 1) / 2 - length / 2);
  return { fromMs, toMs: fromMs + length - 1 };
}

/** The same length, half a window earlier (-1) or later (1). */
export function moved({ fromMs, toMs }: Window, by: -1 | 1): Window {
  const step = by * Math.ceil((toMs - fromMs + 1) / 2);
  return { fromMs: fromMs + step, toMs: toMs + step };
}

export const isoOf = (ms: number): string => new Date(ms).toISOString();
