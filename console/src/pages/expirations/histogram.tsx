import './expirations.css';
import { type PointerEvent, type ReactNode, useState } from 'react';
import { DAY_MS } from '../../../../src/ledger/time';
import { COUNT } from '../../parts/numbers';
import { formatDuration, FULL } from '../../parts/time';
import type { Counts } from './counts';
import { barsOf, barsWindow, slotOf, type Window } from './window';

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const TICKS = 4;

function tickOf(ms: number, window: Window): string {
  return window.toMs - window.fromMs > 2 * DAY_MS ? DAY.format(ms) : CLOCK.format(ms);
}

/** Expirations over time, as bars. Dragging over bars, or a click on one, chooses their time. */
export function Histogram({
  window: shown,
  counts,
  choose,
}: {
  window: Window;
  counts: Counts | undefined;
  choose: (window: Window) => void;
}): ReactNode {
  const [at, setAt] = useState<number>();
  const [start, setStart] = useState<number>();
  const bars = barsOf(shown);
  const slotMs = slotOf(shown);
  const values = Array.from(
    { length: bars },
    (_, bar) => counts?.slots.get(shown.fromMs + bar * slotMs) ?? 0,
  );
  const most = Math.max(1, ...values);
  const barAt = ({ clientX, currentTarget }: PointerEvent): number => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return Math.min(bars - 1, Math.max(0, Math.floor(((clientX - left) / width) * bars)));
  };
  const chosen = at === undefined ? undefined : barsWindow(shown, start ?? at, at);
  return (
    <div>
      <div className="histogram-head muted small num">
        <span>
          {counts === undefined
            ? ''
            : `at most ${COUNT.format(Math.max(...values))} in ${formatDuration(slotMs)}`}
        </span>
        <span>
          {at === undefined || chosen === undefined
            ? 'Drag over bars to zoom in'
            : captionOf(chosen, values.slice(Math.min(start ?? at, at), Math.max(start ?? at, at) + 1))}
        </span>
      </div>
      <svg
        className="histogram"
        role="img"
        aria-label={summaryOf(shown, counts, values, slotMs)}
        viewBox={`0 0 ${bars} 100`}
        preserveAspectRatio="none"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setStart(barAt(event));
          setAt(barAt(event));
        }}
        onPointerMove={(event) => setAt(barAt(event))}
        onPointerUp={(event) => {
          if (start !== undefined) {
            choose(barsWindow(shown, start, barAt(event)));
          }
          setStart(undefined);
          setAt(undefined);
        }}
        onPointerLeave={() => start === undefined && setAt(undefined)}
        onPointerCancel={() => setStart(undefined)}
      >
        {at !== undefined && (
          <rect
            className="histogram-choice"
            x={Math.min(start ?? at, at)}
            width={Math.abs((start ?? at) - at) + 1}
            y={0}
            height={100}
          />
        )}
        {values.map((value, bar) => (
          // A single expiration beside thousands must still show.
          <rect
            key={bar}
            x={bar + 0.1}
            width={0.8}
            y={100 - (value === 0 ? 0 : Math.max(2, (value / most) * 98))}
            height={value === 0 ? 0 : Math.max(2, (value / most) * 98)}
          />
        ))}
      </svg>
      <div className="histogram-ticks muted small num" aria-hidden="true">
        {Array.from({ length: TICKS + 1 }, (_, tick) => (
          <span key={tick}>
            {tickOf(shown.fromMs + ((shown.toMs + 1 - shown.fromMs) / TICKS) * tick, shown)}
          </span>
        ))}
      </div>
    </div>
  );
}

function captionOf({ fromMs, toMs }: Window, values: readonly number[]): string {
  const sum = values.reduce((total, value) => total + value, 0);
  return `${COUNT.format(sum)} in ${formatDuration(toMs + 1 - fromMs)} from ${FULL.format(fromMs)}`;
}

function summaryOf(
  { fromMs, toMs }: Window,
  counts: Counts | undefined,
  values: readonly number[],
  slotMs: number,
): string {
  if (counts === undefined) {
    return 'Expirations over time, being counted';
  }
  const most = Math.max(...values);
  const peak = FULL.format(fromMs + values.indexOf(most) * slotMs);
  const peaks = most === 0 ? '' : `; most, ${most}, in the ${formatDuration(slotMs)} from ${peak}`;
  return `${counts.total} from ${FULL.format(fromMs)} to ${FULL.format(toMs + 1)}${peaks}`;
}
