import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { serverNowMs } from '../api/server-time';
import type { Schema } from '../api/operations';
import { DAY_MS } from '../../../src/ledger/time';
import type { Budget } from '../api/types';

const USAGE = '/ops/usage';
const SPAN_HOURS = 6;
/** A shorter time says too little. */
const LEAST_HOURS = 0.5;
/** The archive is behind by some seconds, always. */
const NEARLY_ALL = 0.95;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const EVERY_MS = 60_000;
const MOST_ROWS = 10_000;

/** What each scope was charged itself in the last hours, in each unit. */
interface Charges {
  readonly rows: readonly { readonly scope: string; readonly unit: string; readonly charged: bigint }[];
  /** How many of them the archive has. */
  readonly hours: number;
}

/** The charges of the last hours at a scope and below it, or of all scopes. Undefined until they are read, and where there is no archive. */
export function useCharges(scope?: string): Charges | undefined {
  const { data } = useQuery({
    queryKey: [USAGE, 'rate', scope],
    queryFn: async (): Promise<Charges | null> => {
      const now = serverNowMs();
      const from = now - SPAN_HOURS * HOUR_MS;
      const report = await get(USAGE, {
        from: new Date(from).toISOString(),
        to: new Date(now).toISOString(),
        group_by: 'scope',
        order: '-charged',
        limit: MOST_ROWS,
        scope,
      });
      const { complete_from_ms: firstMs, complete_through_ms: throughMs, gaps, has_more: isCut } = report;
      const hours = (Math.min(now, throughMs || now) - Math.max(from, firstMs)) / HOUR_MS;
      // With a part of the charges, a budget would seem to last longer than it does.
      return isCut || gaps.length > 0 || hours < LEAST_HOURS
        ? null
        : {
            rows: report.rows.map(({ scope: at = '', unit: of, charged }) => ({
              scope: at,
              unit: of,
              charged: BigInt(charged),
            })),
            hours,
          };
    },
    refetchInterval: EVERY_MS,
    retry: false,
  });
  return data ?? undefined;
}

type Windows = readonly Schema<'BudgetWindow'>[];

interface Bound {
  readonly name: string | undefined;
  readonly left: bigint;
  readonly untilMs: number;
}

/** When a budget, or the first of its windows, runs out at the rate of its last hours; undefined if it does not before it begins anew. */
function runsOutOf(
  { scope, unit, remaining, period_end: end }: Budget,
  windows: Windows,
  { rows, hours }: Charges,
): { readonly inMs: number; readonly window: string | undefined } | undefined {
  const charged = rows
    .filter((one) => one.unit === unit && `${one.scope}/`.startsWith(`${scope}/`))
    .reduce((sum, one) => sum + one.charged, 0n);
  if (charged <= 0n) {
    return undefined;
  }
  const bounds: readonly Bound[] = [
    {
      name: undefined,
      left: BigInt(remaining.amount),
      untilMs: end === undefined ? Infinity : Date.parse(end),
    },
    ...windows.map(({ name, remaining: left, ends_at: until }) => ({
      name,
      left: BigInt(left.amount),
      untilMs: Date.parse(until),
    })),
  ];
  const now = serverNowMs();
  const [first] = bounds
    .map(({ name, left, untilMs }) => ({
      window: name,
      untilMs,
      // An estimate: a double is exact enough.
      inMs: (Math.max(0, Number(left)) / Number(charged)) * hours * HOUR_MS,
    }))
    .filter(({ inMs, untilMs }) => now + inMs < untilMs)
    .sort((one, other) => one.inMs - other.inMs);
  return first;
}

/** A duration in one unit, as an estimate deserves. */
function about(ms: number): string {
  return ms < 1.5 * HOUR_MS
    ? `${Math.max(1, Math.round(ms / MINUTE_MS))} min`
    : ms < 2 * DAY_MS
      ? `${Math.round(ms / HOUR_MS)} h`
      : `${Math.round(ms / DAY_MS)} days`;
}

/** A year is as good as never. */
const FAR_MS = 365 * DAY_MS;

/** For example “runs out in about 3 h at the rate of the last six hours”. Nothing where it does not, or nobody knows. */
export function Runway({
  budget,
  windows = [],
  charges,
}: {
  budget: Budget;
  windows?: Windows | undefined;
  charges: Charges | undefined;
}): ReactNode {
  const out = charges && runsOutOf(budget, windows, charges);
  if (charges === undefined || out === undefined || out.inMs > FAR_MS) {
    return null;
  }
  const what = out.window === undefined ? 'Runs' : `Window ${out.window} runs`;
  return out.inMs === 0
    ? `${what} out now`
    : `${what} out in about ${about(out.inMs)} at the rate of ${
        charges.hours < NEARLY_ALL * SPAN_HOURS ? 'what the archive has of ' : ''
      }the last six hours`;
}
