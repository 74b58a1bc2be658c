import { isTimeZone, type LocalClock, localClock } from './time-zone.js';

/**
 * The rule of periods or windows that follow the calendar of a time zone. Each begins when the local clock first shows midnight, or
 * another full hour. Where the clocks skip that hour, it begins at the change.
 */
export interface Recurrence {
  readonly every: Every;
  /** An IANA name, as the request spelled it. */
  readonly timeZone: string;
  /** 1 (Monday) to 7 for weeks; 1 to 31 for months, quarters and years, where a shorter month begins on its last day. */
  readonly anchorDay: number;
  /** The month, 1 to 12, in which a year begins, or one in which a quarter begins. */
  readonly anchorMonth: number;
  /** The hour, 0 to 23, of the day at which a period begins. */
  readonly anchorHour: number;
  /** 1 to 23: how long windows of hours are. Each local day begins with a new one, so the last one of a day may be shorter. */
  readonly lengthHours: number;
}

/** What periods can be. Windows can have hours, too; a period of an hour would write an event and an audit row each hour. */
export const PERIODS = ['day', 'week', 'month', 'quarter', 'year'] as const;
export const EVERY = ['hour', ...PERIODS] as const;
export type Every = (typeof EVERY)[number];

/** How many boundaries are planned ahead: two days and a half of hours, two months of days, sixteen years of quarters. */
export const PLANNED = 64;
const HOUR_MS = 3_600_000;
/** Not that of the ledger: the console's page bundles this file. */
const DAY_MS = 24 * HOUR_MS;
const MONTHS: Readonly<Partial<Record<Every, number>>> = { month: 1, quarter: 3, year: 12 };

/** How a budget's record stores the rule. The last number is the length of windows of hours, or the hour of periods unless it is 0. */
export function recurrenceText({ every, timeZone, anchorDay, anchorMonth, ...rule }: Recurrence): string {
  const hours = every === 'hour' ? rule.lengthHours : rule.anchorHour;
  return `${every} ${timeZone} ${anchorDay} ${anchorMonth}${hours === 0 ? '' : ` ${hours}`}`;
}

/** Undefined if the text is not a rule, or its time zone is not known any more. */
export function parseRecurrence(text: string): Recurrence | undefined {
  const [word, zone = '', day = '', month = '', last = '0'] = text.split(' ');
  const every = EVERY.find((known) => known === word);
  const [anchorDay, anchorMonth, hours] = [Number(day), Number(month), Number(last)];
  const isHours = every === 'hour';
  return every !== undefined &&
    isTimeZone(zone) &&
    anchorDay >= 1 &&
    anchorMonth >= 1 &&
    hours >= (isHours ? 1 : 0) &&
    hours < 24
    ? {
        every,
        timeZone: zone,
        anchorDay,
        anchorMonth,
        anchorHour: isHours ? 0 : hours,
        lengthHours: isHours ? hours : 1,
      }
    : undefined;
}

/** The first `count` boundaries after an instant, ascending, in ms. */
export function boundariesAfter(rule: Recurrence, afterMs: number, count = PLANNED): number[] {
  const clock = localClock(rule.timeZone);
  const found: number[] = [];
  for (const reading of localStarts(rule, clock.localMs(afterMs))) {
    const start = firstInstantAt(clock, reading);
    if (start > Math.max(afterMs, found.at(-1) ?? afterMs)) {
      found.push(start);
    }
    if (found.length === count) {
      return found;
    }
  }
  return found;
}

/** The readings of the local clock at which periods or windows begin, from before `localMs` on. */
function* localStarts(rule: Recurrence, localMs: number): Generator<number> {
  const { every, anchorHour, lengthHours } = rule;
  for (const day of localDays(rule, localMs)) {
    if (every !== 'hour') {
      yield day + anchorHour * HOUR_MS;
      continue;
    }
    for (let reading = day; reading < day + DAY_MS; reading += lengthHours * HOUR_MS) {
      yield reading;
    }
  }
}

/** The local days on which periods begin, as midnights of a clock without zones, from before `localMs` on. */
function* localDays({ every, anchorDay, anchorMonth }: Recurrence, localMs: number): Generator<number> {
  const step = MONTHS[every];
  if (step === undefined) {
    const days = every === 'week' ? 7 : 1;
    // 1 January 1970 was a Thursday, the fourth day of its week.
    const weekday = every === 'week' ? anchorDay - 4 : 0;
    for (let day = Math.floor((localMs / DAY_MS - weekday) / days) - 1; ; day += 1) {
      yield (day * days + weekday) * DAY_MS;
    }
  }
  const date = new Date(localMs);
  const month = date.getUTCFullYear() * 12 + date.getUTCMonth();
  const phase = (anchorMonth - 1) % step;
  for (let first = Math.floor((month - phase) / step) * step + phase - step; ; first += step) {
    const lastDay = new Date(Date.UTC(0, 0)).setUTCFullYear(Math.floor(first / 12), (first % 12) + 1, 0);
    const days = new Date(lastDay).getUTCDate();
    yield lastDay - (days - Math.min(anchorDay, days)) * DAY_MS;
  }
}

/** When the local clock first shows a reading, or a later one if it skips that. */
function firstInstantAt({ localMs, offsetMs }: LocalClock, reading: number): number {
  // No zone changes its offset twice within two days. Where the clocks skip the reading, the change is between the two instants;
  // where it comes twice, the first time counts.
  const instants = [offsetMs(reading - DAY_MS), offsetMs(reading + DAY_MS)].map((offset) => reading - offset);
  let found = Math.min(...instants.filter((instant) => localMs(instant) >= reading));
  let before = Math.min(...instants);
  while (localMs(found) > reading && found - before > 1000) {
    const middle = Math.floor((before + found) / 2000) * 1000;
    [before, found] = localMs(middle) >= reading ? [before, middle] : [middle, found];
  }
  return found;
}
