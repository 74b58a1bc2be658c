import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { get } from '../../api/client';
import { serverNowMs } from '../../api/server-time';
import type { Schema } from '../../api/operations';
import type { Budget } from '../../api/types';
import { boundariesAfter, type Every, EVERY, PERIODS } from '../../../../src/governance/budgets/recurrence';

export { type Every, EVERY, PERIODS };
export type Period = (typeof PERIODS)[number];
export const RECURRENCE = '/ops/budgets/recurrence';
export const WINDOWS = '/ops/budgets/windows';

export type Recurrence = Schema<'BudgetRecurrence'>;
export type BudgetWindow = Schema<'BudgetWindow'>;

const EVERY_MS = 30_000;
const WINDOWS_EVERY_MS = 5000;

export function useRecurrence({ scope, unit, updated_at: updatedAt }: Budget): UseQueryResult<Recurrence> {
  return useQuery({
    // Whatever changes a period changes the time of the last change.
    queryKey: [RECURRENCE, scope, unit, updatedAt],
    queryFn: () => get(RECURRENCE, { scope, unit }),
    refetchInterval: EVERY_MS,
  });
}

/** The windows of a budget, read again at an interval. */
export function useWindows(
  { scope, unit }: Budget,
  everyMs = WINDOWS_EVERY_MS,
): UseQueryResult<Schema<'BudgetWindows'>> {
  return useQuery({
    queryKey: [WINDOWS, scope, unit],
    queryFn: () => get(WINDOWS, { scope, unit }),
    refetchInterval: everyMs,
  });
}

/** The calendar of a recurrence, complete. */
export interface Calendar<E extends Every = Every> {
  readonly every: E;
  readonly zone: string;
  readonly day: number;
  readonly month: number;
  /** The hour of the day at which it begins. */
  readonly hour: number;
  /** Of windows of hours, in hours. */
  readonly length: number;
}

/** The members of a rule in answers. */
interface Rule<E extends Every> extends Pick<
  BudgetWindow,
  'time_zone' | 'anchor_day' | 'anchor_month' | 'anchor_hour' | 'length_hours'
> {
  readonly every?: E | undefined;
}

/** Undefined if the budget follows no calendar. */
export function calendarOf<E extends Every>({
  every,
  time_zone: zone,
  anchor_day: day = 1,
  anchor_month: month = 1,
  anchor_hour: hour = 0,
  length_hours: length = 1,
}: Rule<E>): Calendar<E> | undefined {
  return every === undefined || zone === undefined ? undefined : { every, zone, day, month, hour, length };
}

/** The calendar that a form begins with, in the reader's time zone. */
export function newCalendar<E extends Every>(every: E): Calendar<E> {
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return { every, zone, day: 1, month: 1, hour: 0, length: 1 };
}

export const hasMonth = (every: Every): boolean => every === 'quarter' || every === 'year';

export const hasDay = (every: Every): boolean => every !== 'hour' && every !== 'day';

/** What the API takes. */
export function requestOf<E extends Every>({ every, zone, day, month, hour, length }: Calendar<E>) {
  return {
    every,
    time_zone: zone,
    ...(hasDay(every) ? { anchor_day: day } : {}),
    ...(hasMonth(every) ? { anchor_month: month } : {}),
    ...(every === 'hour' ? { length_hours: length } : hour === 0 ? {} : { anchor_hour: hour }),
  };
}

/** When the first period by a calendar ends, as the server will find, unless its time zones are of another year. */
export function firstBoundary({ every, zone, day, month, hour, length }: Calendar): number | undefined {
  const rule = {
    every,
    timeZone: zone,
    anchorDay: day,
    anchorMonth: month,
    anchorHour: hour,
    lengthHours: length,
  };
  return boundariesAfter(rule, serverNowMs(), 1)[0];
}

// 1 January 2024 was a Monday.
const nameOf = (options: Intl.DateTimeFormatOptions, month: number, day: number): string =>
  new Intl.DateTimeFormat(undefined, { ...options, timeZone: 'UTC' }).format(Date.UTC(2024, month, day));
export const WEEKDAYS = Array.from({ length: 7 }, (_, day) => nameOf({ weekday: 'long' }, 0, day + 1));
export const MONTHS = Array.from({ length: 12 }, (_, month) => nameOf({ month: 'long' }, month, 1));

/** A calendar in words, such as `every month from day 1 at 6:00, Europe/Berlin`. */
export function wordsOf({ every, zone, day, month, hour, length }: Calendar): string {
  if (every === 'hour') {
    return `every ${length === 1 ? 'hour' : `${length} hours`} from midnight, ${zone}`;
  }
  const start = {
    day: '',
    week: ` from ${WEEKDAYS[day - 1] ?? ''}`,
    month: ` from day ${day}`,
    quarter: ` from day ${day} of ${MONTHS[month - 1] ?? ''}`,
    year: ` from ${day} ${MONTHS[month - 1] ?? ''}`,
  }[every];
  return `every ${every}${start}${hour === 0 ? '' : ` at ${hour}:00`}, ${zone}`;
}
