import { boundariesAfter } from '../../../../src/governance/budgets/recurrence';
import { localClock } from '../../../../src/governance/budgets/time-zone';
import { DAY_MS } from '../../../../src/ledger/time';
import type { Int64 } from '../../api/json';
import { get } from '../../api/client';
import type { Schema } from '../../api/operations';

export const UTC = 'UTC';
export const USAGE = '/ops/usage';
export type UsageReport = Schema<'UsageReport'>;
export type UsageRow = Schema<'UsageRow'>;

/** Where the reader's days begin. */
export const ZONE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** What a chart tells apart by colour; the others are one series. */
export const SHOWN = 10;
/** The most rows of a report. */
export const MOST_ROWS = 10_000;

/** The day at an instant, such as 2026-10-25. */
export const dayAt = (ms: number, zone: string): string =>
  new Date(localClock(zone).localMs(ms)).toISOString().slice(0, 10);

const dayMs = (day: string): number => Date.parse(`${day}T00:00:00Z`);

export const isDay = (day: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(day) && !Number.isNaN(dayMs(day));

/** The day that is so many after another one. */
export const dayAfter = (day: string, count = 1): string =>
  new Date(dayMs(day) + count * DAY_MS).toISOString().slice(0, 10);

const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: UTC });
const DAY_OF_WEEK = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  timeZone: UTC,
});

/** A day in words, such as 25 Oct. */
export const dayWords = (day: string, format = DAY): string => format.format(dayMs(day));

/** For example Sun 25 Oct. */
export const longDayWords = (day: string): string => dayWords(day, DAY_OF_WEEK);

const EACH_DAY = { every: 'day', anchorDay: 1, anchorMonth: 1, anchorHour: 0, lengthHours: 1 } as const;

/** When a day begins in a zone. A day may have 23 or 25 hours, and where the clocks skip midnight, it begins later. */
export function startOf(day: string, zone: string): number {
  const midnights = boundariesAfter({ ...EACH_DAY, timeZone: zone }, dayMs(day) - 2 * DAY_MS, 4);
  return midnights.find((at) => dayAt(at, zone) >= day) ?? dayMs(day);
}

/** Days from the first to the last, both included. */
export function daysBetween(first: string, last: string): string[] {
  const count = Math.round((dayMs(last) - dayMs(first)) / DAY_MS) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, place) => dayAfter(first, place));
}

/** The span of some days of a zone, half open, as the API takes it. */
export function spanOf(
  days: readonly string[],
  zone: string,
): { readonly from: string; readonly to: string } {
  const [first = '', last = ''] = [days[0], days.at(-1)];
  const at = (day: string): string => new Date(startOf(day, zone)).toISOString();
  return { from: at(first), to: at(dayAfter(last)) };
}

/** The last days until one. */
export const lastDays = (count: number, last: string): string[] =>
  daysBetween(dayAfter(last, 1 - count), last);

/** Figures beyond int64 are texts. */
export const amountOf = (figure: Int64 | string): bigint => BigInt(figure);

/** The key of a row, undefined if its charges lack it. A dimension has its name. */
export const keyOf = (row: UsageRow, by: string): string | undefined =>
  (row as Readonly<Record<string, unknown>>)[by] as string | undefined;

export interface Series {
  /** Its value of each key; undefined for charges that lack the key. */
  readonly names: readonly (string | undefined)[];
  readonly row: UsageRow;
  /** By day. */
  readonly days: ReadonlyMap<string, bigint>;
}

const NAMES: Readonly<Record<string, string>> = {
  RESERVATION: 'reservations',
  DIRECT_DEBIT: 'direct debits',
  REFUND: 'refunds',
};

/** A series in words. */
export const nameOf = ({ names }: Pick<Series, 'names'>): string => names.map(wordsOf).join(', ');

/** The value of a key in words. */
export const wordsOf = (name: string | undefined): string =>
  name === undefined ? 'without one' : (NAMES[name] ?? name);

export interface Usage {
  readonly report: UsageReport;
  readonly unit: UsageRow['unit'];
  readonly units: readonly UsageRow['unit'][];
  readonly total: UsageRow | undefined;
  /** The largest, largest first. */
  readonly top: readonly Series[];
  /** What each day was charged in all. */
  readonly days: ReadonlyMap<string, UsageRow>;
  /** Whether the days have more rows by the key than a report. */
  readonly isCut: boolean;
}

interface Asked {
  readonly from: string;
  readonly to: string;
  /** One key or two. */
  readonly by: readonly string[];
  readonly zone: string;
  readonly unit: string | undefined;
  readonly filters: Readonly<Record<string, string | undefined>>;
}

/** The filters as the report is asked for with them. */
export const queryOf = ({ from, to, zone, filters }: Pick<Asked, 'from' | 'to' | 'zone' | 'filters'>) => ({
  ...filters,
  from,
  to,
  time_zone: zone,
});

/**
 * The charges of a span by day and by one key or two. Reports are read one after the other: an instance makes one at a time. What the largest
 * leave of a day is that of all others, however many there are.
 */
export async function readUsage(asked: Asked): Promise<Usage> {
  const { by } = asked;
  const keys = by.join(',');
  const namesOf = (row: UsageRow): (string | undefined)[] => by.map((key) => keyOf(row, key));
  const query = queryOf(asked);
  const all = await get(USAGE, query);
  // The unit that is used most comes first.
  const units = [...all.totals].sort((one, other) => other.count - one.count).map((row) => row.unit);
  const unit = units.find((one) => one === asked.unit) ?? units[0] ?? 'USD_MICROCENTS';
  if (all.totals.length === 0) {
    return { report: all, unit, units, total: undefined, top: [], days: new Map(), isCut: false };
  }
  const ofUnit = { ...query, unit };
  const largest = await get(USAGE, { ...ofUnit, group_by: keys, order: '-charged', limit: SHOWN });
  const daily = await get(USAGE, { ...ofUnit, group_by: 'day', limit: MOST_ROWS });
  const each = await get(USAGE, { ...ofUnit, group_by: `day,${keys}`, order: '-charged', limit: MOST_ROWS });
  return {
    report: all,
    unit,
    units,
    total: all.totals.find((row) => row.unit === unit),
    top: largest.rows.map((row) => {
      const names = namesOf(row);
      const own = each.rows.filter((one) => namesOf(one).every((name, place) => name === names[place]));
      return {
        names,
        row,
        days: new Map(own.map((one) => [keyOf(one, 'day') ?? '', amountOf(one.charged)])),
      };
    }),
    days: new Map(daily.rows.map((row) => [keyOf(row, 'day') ?? '', row])),
    isCut: each.has_more,
  };
}
