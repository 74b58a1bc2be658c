import { isTimeZone, type LocalClock, localClock } from '../governance/index.js';
import { DAY_MS, invalidField } from '../ledger/index.js';

/** No zone has changed its offset there and back within a week. */
const STEP_MS = 7 * DAY_MS;

/** From an instant on, local time is this far ahead of UTC. */
export interface ZoneOffset {
  readonly fromMs: number;
  readonly offsetMs: number;
}

/**
 * The offsets of a time zone from one instant to another, the first of them from the beginning on.
 * @throws Refusal INVALID_REQUEST
 */
export function offsetsIn(timeZone: string, fromMs: number, toMs: number): ZoneOffset[] {
  if (!isTimeZone(timeZone)) {
    throw invalidField('time_zone', 'time_zone must be a name of the IANA database, such as Europe/Berlin');
  }
  const offsetAt = localClock(timeZone).offsetMs;
  const found = [{ fromMs, offsetMs: offsetAt(fromMs) }];
  for (let atMs = fromMs; atMs < toMs;) {
    const nextMs = Math.min(atMs + STEP_MS, toMs);
    const { offsetMs } = found.at(-1) as ZoneOffset;
    if (offsetAt(nextMs) === offsetMs) {
      atMs = nextMs;
    } else {
      atMs = changeBetween(offsetAt, atMs, nextMs);
      found.push({ fromMs: atMs, offsetMs: offsetAt(atMs) });
    }
  }
  return found;
}

/** The first millisecond with another offset. */
function changeBetween(offsetAt: LocalClock['offsetMs'], beforeMs: number, afterMs: number): number {
  const offsetMs = offsetAt(beforeMs);
  let [before, after] = [beforeMs, afterMs];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    [before, after] = offsetAt(middle) === offsetMs ? [middle, after] : [before, middle];
  }
  return after;
}

/** Local time as `2026-01-31`, from the ms of local midnight since 1970. */
export const dateText = (localMs: number): string => new Date(localMs).toISOString().slice(0, 10);

/** An instant as RFC 3339 in local time, with its offset: in autumn, two hours have the same figures and different offsets. */
export function hourText(atMs: number, offsetMs: number): string {
  const minutes = Math.round(Math.abs(offsetMs) / 60_000);
  const two = (count: number): string => String(count).padStart(2, '0');
  const offset =
    offsetMs === 0 ? 'Z' : `${offsetMs < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  return `${new Date(atMs + offsetMs).toISOString().slice(0, 19)}${offset}`;
}
