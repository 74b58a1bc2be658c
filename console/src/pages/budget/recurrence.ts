import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { get } from '../../api/client';
import { serverNowMs } from '../../api/server-time';
import type { Schema } from '../../api/operations';
import type { Budget } from '../../api/types';
import { boundariesAfter, type Every, EVERY } from '../../../../src/governance/budgets/recurrence';

export { type Every, EVERY };
export const RECURRENCE = '/ops/budgets/recurrence';
export const WINDOWS = '/ops/budgets/windows';

export type Recurrence = Schema<'BudgetRecurrence'>;
export type BudgetWindow = Schema<'BudgetWindow'>;

const EVERY_MS = 30_000;

export function useRecurrence({ scope, unit, updated_at: updatedAt }: Budget): UseQueryResult<Recurrence> {
  return useQuery({
    // Whatever changes a period changes the time of the last change.
    queryKey: [RECURRENCE, scope, unit, updatedAt],
    queryFn: () => get(RECURRENCE, { scope, unit }),
    refetchInterval: EVERY_MS,
  });
}

/** The calendar of a recurrence, complete. */
export interface Calendar {
  readonly every: Every;
  readonly zone: string;
  readonly day: number;
  readonly month: number;
}

/** Undefined if the budget follows no calendar. */
export function calendarOf({
  every,
  time_zone: zone,
  anchor_day: day = 1,
  anchor_month: month = 1,
}: Partial<Recurrence>): Calendar | undefined {
  return every === undefined || zone === undefined ? undefined : { every, zone, day, month };
}

/** The calendar that a form begins with, in the reader's time zone. */
export function newCalendar(every: Every): Calendar {
  return { every, zone: new Intl.DateTimeFormat().resolvedOptions().timeZone, day: 1, month: 1 };
}

export const hasMonth = (every: Every): boolean => every === 'quarter' || every === 'year';

/** What the API takes. */
export function requestOf({ every, zone, day, month }: Calendar) {
  return {
    every,
    time_zone: zone,
    ...(every === 'day' ? {} : { anchor_day: day }),
    ...(hasMonth(every) ? { anchor_month: month } : {}),
  };
}

/** When the first period by a calendar ends, as the server will find, unless its time zones are of another year. */
export function firstBoundary({ every, zone, day, month }: Calendar): number | undefined {
  return boundariesAfter({ every, timeZone: zone, anchorDay: day, anchorMonth: month }, serverNowMs(), 1)[0];
}

// 1 January 2024 was a Monday.
const nameOf = (options: Intl.DateTimeFormatOptions, month: number, day: number): string =>
  new Intl.DateTimeFormat(undefined, { ...options, timeZone: 'UTC' }).format(Date.UTC(2024, month, day));
export const WEEKDAYS = Array.from({ length: 7 }, (_, day) => nameOf({ weekday: 'long' }, 0, day + 1));
export const MONTHS = Array.from({ length: 12 }, (_, month) => nameOf({ month: 'long' }, month, 1));

/** A calendar in words, such as `every month from day 1, Europe/Berlin`. */
export function wordsOf({ every, zone, day, month }: Calendar): string {
  const start = {
    day: '',
    week: ` from ${WEEKDAYS[day - 1] ?? ''}`,
    month: ` from day ${day}`,
    quarter: ` from day ${day} of ${MONTHS[month - 1] ?? ''}`,
    year: ` from ${day} ${MONTHS[month - 1] ?? ''}`,
  }[every];
  return `every ${every}${start}, ${zone}`;
}
