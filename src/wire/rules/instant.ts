import { Obeys } from './decorators.js';

const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/i;
const MINUTE_MS = 60_000;
/** The range of RFC 3339 in UTC. With an offset, a text may denote an instant up to a day outside, which is clamped. */
const FIRST_MS = Date.parse('0000-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Parses an RFC 3339 date-time into ms since the epoch (negative before 1970) and truncates its fraction. A leap second becomes the
 * second after it, because Redis and Node do not count leap seconds.
 * @returns undefined for anything else, including a blank text, which the protocol treats as no bound.
 */
export function instantMs(text: string | undefined): number | undefined {
  const parts = DATE_TIME.exec(text ?? '');
  if (parts === null) {
    return undefined;
  }
  const [, date = '', hour, minute, second, fraction = '', sign, offsetHour = 0, offsetMinute = 0] = parts;
  // Date.parse refuses the 32nd of a month, but reads 31 February as 3 March.
  const dayMs = Date.parse(`${date}T00:00:00Z`);
  if (
    Number.isNaN(dayMs) ||
    new Date(dayMs).getUTCDate() !== Number(date.slice(8)) ||
    Number(hour) > 23 ||
    Number(minute) > 59
  ) {
    return undefined;
  }
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) {
    return undefined;
  }
  const offsetMinutes = (Number(offsetHour) * 60 + Number(offsetMinute)) * (sign === '-' ? -1 : 1);
  const wholeMs =
    dayMs + (Number(hour) * 60 + Number(minute) - offsetMinutes) * MINUTE_MS + Number(second) * 1000;
  if (Number(second) > 60 || (Number(second) === 60 && !startsMonth(wholeMs))) {
    return undefined;
  }
  const ms = wholeMs + Number(fraction.slice(0, 3).padEnd(3, '0'));
  return Math.min(Math.max(ms, FIRST_MS), LAST_MS);
}

/** Leap seconds end a month in UTC, so the second after one starts the next month. */
function startsMonth(ms: number): boolean {
  const date = new Date(ms);
  return date.getUTCDate() === 1 && date.getUTCHours() === 0 && date.getUTCMinutes() === 0;
}

/** A bound of a time window: a date-time of RFC 3339, or blank for no bound. Read it with `instantMs`. */
export function IsWindowBound(): PropertyDecorator {
  return Obeys({
    name: 'isWindowBound',
    test: (value) => typeof value === 'string' && (value.trim() === '' || instantMs(value) !== undefined),
    schema: { type: 'string', format: 'date-time' },
    phrase: "a date-time such as 2026-01-31T12:00:00Z (a '+' is written %2B in a URL), or blank for no bound",
  });
}

/** A date-time of RFC 3339. Read it with `instantMs`. */
export function IsDateTime(): PropertyDecorator {
  return Obeys({
    name: 'isDateTime',
    test: (value) => typeof value === 'string' && instantMs(value) !== undefined,
    schema: { type: 'string', format: 'date-time' },
    phrase: 'a date and time with its offset, such as 2030-01-31T12:00:00Z',
  });
}
