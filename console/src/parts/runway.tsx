import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { serverNowMs } from '../api/server-time';
import type { Schema } from '../api/operations';
import { DAY_MS } from '../../../src/ledger/time';
import type { Budget } from '../api/types';

const USAGE = '/ops/usage';
const HOURS = 6;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const EVERY_MS = 60_000;
const MOST_ROWS = 10_000;

/** What each scope was charged itself in the last hours, in each unit. */
type Charges = readonly { readonly scope: string; readonly unit: string; readonly charged: bigint }[];

/** The charges of the last hours at a scope and below it, or of all scopes. Undefined until they are read, and where there is no archive. */
export function useCharges(scope?: string): Charges | undefined {
  const { data } = useQuery({
    queryKey: [USAGE, 'rate', scope],
    queryFn: async (): Promise<Charges | null> => {
      const now = serverNowMs();
      const { rows, has_more: isCut } = await get(USAGE, {
        from: new Date(now - HOURS * HOUR_MS).toISOString(),
        to: new Date(now).toISOString(),
        group_by: 'scope',
        order: '-charged',
        limit: MOST_ROWS,
        scope,
      });
      // With a part of the charges, a budget would seem to last longer than it does.
      return isCut
        ? null
        : rows.map(({ scope: at = '', unit, charged }) => ({ scope: at, unit, charged: BigInt(charged) }));
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
  charges: Charges,
): { readonly inMs: number; readonly window: string | undefined } | undefined {
  const charged = charges
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
      inMs: (Math.max(0, Number(left)) / Number(charged)) * HOURS * HOUR_MS,
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
  if (out === undefined || out.inMs > FAR_MS) {
    return null;
  }
  const what = out.window === undefined ? 'Runs' : `Window ${out.window} runs`;
  return out.inMs === 0
    ? `${what} out now`
    : `${what} out in about ${about(out.inMs)} at the rate of the last six hours`;
}
