import { Obeys } from './decorators.js';

const DATE_TIME = /^(\d{4}-(?:0[1-9]|1[0-2])-(\d{2}))T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/**
 * The instant that a bound of a time window names, in ms since the epoch, its fraction cut to the millisecond.
 * @returns undefined for a blank text, which the protocol counts as a bound that is not set, and for one that is no date-time.
 */
export function instantMs(text: string | undefined): number | undefined {
  const parts = DATE_TIME.exec(text ?? '');
  if (parts === null) {
    return undefined;
  }
  // Date.parse takes 31 February for 3 March.
  const day = new Date(`${parts[1]}T00:00:00Z`);
  return day.getUTCDate() === Number(parts[2]) ? Date.parse((text as string).toUpperCase()) : undefined;
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
