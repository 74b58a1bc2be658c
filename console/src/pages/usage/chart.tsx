import './usage.css';
import { type ReactNode, useState } from 'react';
import { Amount, formatAmount } from '../../parts/amount';
import { amountOf, dayWords, type Series, type Usage } from './usage';

const SCALE = 10_000n;
const TICKS = 4;

/** The colour of the series at a place; the last one is that of all others. */
export const colourOf = (place: number | undefined): string =>
  place === undefined ? 'var(--series-rest)' : `var(--series-${place + 1})`;

interface Part {
  readonly name: string;
  readonly colour: string;
  readonly amount: bigint;
}

/** What the bar of a day consists of, from below. */
function partsOf(day: string, { days, top }: Usage, nameOf: (series: Series) => string): Part[] {
  const parts = top.map((series, place) => ({
    name: nameOf(series),
    colour: colourOf(place),
    amount: series.days.get(day) ?? 0n,
  }));
  const rest = parts.reduce((left, { amount }) => left - amount, amountOf(days.get(day)?.charged ?? 0));
  return [...parts, { name: 'all others', colour: colourOf(undefined), amount: rest }].filter(
    ({ amount }) => amount > 0n,
  );
}

/** The charges of each day, stacked by one key. The table beside it is its legend. */
export function UsageChart({
  days,
  usage,
  nameOf,
}: {
  days: readonly string[];
  usage: Usage;
  nameOf: (series: Series) => string;
}): ReactNode {
  const [at, setAt] = useState<string>();
  const totals = days.map((day) => amountOf(usage.days.get(day)?.charged ?? 0));
  const most = totals.reduce((one, other) => (one > other ? one : other), 1n);
  const { unit } = usage;
  const peak = days[totals.indexOf(most)];
  const caption = at === undefined ? undefined : partsOf(at, usage, nameOf);
  return (
    <div>
      <div className="usage-head muted small">
        <span>
          at most <Amount amount={most} unit={unit} withUnit /> a day
        </span>
        <span>
          {at !== undefined && (
            <>
              {dayWords(at)}: <Amount amount={totals[days.indexOf(at)] ?? 0n} unit={unit} withUnit />
            </>
          )}
        </span>
      </div>
      <svg
        className="usage-chart"
        role="img"
        aria-label={`Charged a day, from ${days[0]} to ${days.at(-1)}; most on ${peak}: ${formatAmount(most, unit)}`}
        viewBox={`0 0 ${days.length} 100`}
        preserveAspectRatio="none"
        onPointerLeave={() => setAt(undefined)}
      >
        {days.map((day, index) => (
          <Bar
            key={day}
            x={index}
            parts={partsOf(day, usage, nameOf)}
            most={most}
            isChosen={day === at}
            choose={() => setAt(day)}
          />
        ))}
      </svg>
      {caption === undefined ? (
        <div className="usage-ticks muted small num" aria-hidden="true">
          {ticksOf(days).map((day) => (
            <span key={day}>{dayWords(day)}</span>
          ))}
        </div>
      ) : (
        <div className="usage-caption small" aria-hidden="true">
          {caption.map(({ name, colour, amount }) => (
            <span key={name}>
              <span className="swatch" style={{ background: colour }} />
              {name} <Amount amount={amount} unit={unit} />
            </span>
          ))}
        </div>
      )}
    </div>
  );
}

function Bar({
  x,
  parts,
  most,
  isChosen,
  choose,
}: {
  x: number;
  parts: readonly Part[];
  most: bigint;
  isChosen: boolean;
  choose: () => void;
}): ReactNode {
  const heightOf = (amount: bigint): number => Number((amount * SCALE) / most) / Number(SCALE / 100n);
  let below = 0n;
  return (
    <g onPointerEnter={choose}>
      <rect className={isChosen ? 'usage-choice' : 'usage-place'} x={x} width={1} y={0} height={100} />
      {parts.map(({ name, colour, amount }) => {
        below += amount;
        return (
          <rect
            key={name}
            x={x + 0.12}
            width={0.76}
            y={100 - heightOf(below)}
            height={heightOf(amount)}
            style={{ fill: colour }}
          />
        );
      })}
    </g>
  );
}

const ticksOf = (days: readonly string[]): string[] => [
  ...new Set(
    Array.from(
      { length: TICKS + 1 },
      (_, tick) => days[Math.round(((days.length - 1) * tick) / TICKS)] ?? '',
    ),
  ),
];
