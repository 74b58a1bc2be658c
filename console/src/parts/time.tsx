import { type ReactNode, useEffect, useState } from 'react';
import { DAY_MS } from '../../../src/ledger/time';
import { serverNowMs } from '../api/server-time';
import { TENTHS } from './numbers';

/** Dates are as the reader's language has them. Times have 24 hours in every language, as on the axes of graphs. */
export const FULL = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium',
  timeStyle: 'medium',
  hourCycle: 'h23',
});
/** Of the current year. */
const SHORT = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});

/** An instant in the reader's time zone, with UTC on hover. */
export function Time({ at, clock = false }: { at: string | number; clock?: boolean }): ReactNode {
  const date = new Date(at);
  const format = clock ? CLOCK : date.getFullYear() === new Date(serverNowMs()).getFullYear() ? SHORT : FULL;
  return (
    <time className="num" dateTime={date.toISOString()} title={`${date.toISOString()} (UTC)`}>
      {format.format(date)}
    </time>
  );
}

const SECOND_MS = 1000;
/** Figures that are older say how old they are. */
const OLD_MS = 10_000;

/** The time, once a second. */
export function useNow(): number {
  const [now, setNow] = useState(serverNowMs);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(serverNowMs()), SECOND_MS);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}

/** When figures were read. Their age grows also where no newer ones come. */
export function AsOf({ at }: { at: string | number }): ReactNode {
  const ageMs = useNow() - new Date(at).getTime();
  return (
    <span className="muted small">
      as of <Time at={at} clock />
      {ageMs > OLD_MS && `, ${formatDuration(ageMs)} old`}
    </span>
  );
}

const STEPS: readonly (readonly [ms: number, name: string])[] = [
  [DAY_MS, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [SECOND_MS, 's'],
];

/** A duration in its two largest units, such as `3 min 20 s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) {
    return `${Math.round(ms)} ms`;
  }
  if (ms < 10_000) {
    return `${TENTHS.format(ms / 1000)} s`;
  }
  const first = STEPS.findIndex(([step]) => ms >= step);
  const parts: string[] = [];
  let left = ms;
  for (const [step, name] of STEPS.slice(first, first + 2)) {
    const count = Math.floor(left / step);
    left -= count * step;
    if (count > 0) {
      parts.push(`${count} ${name}`);
    }
  }
  return parts.join(' ');
}

/** The form of datetime-local inputs: the reader's zone, without naming it. */
export function localText(iso: string | undefined): string {
  const date = new Date(iso ?? Number.NaN);
  if (Number.isNaN(date.getTime())) {
    return '';
  }
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
