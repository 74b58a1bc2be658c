import { Refusal } from '../ledger/index.js';

const DAY_MS = 86_400_000;
/** No zone has changed its offset there and back within a week. */
const STEP_MS = 7 * DAY_MS;

/** From an instant on, local time is this far ahead of UTC. */
export interface ZoneOffset {
  readonly fromMs: number;
  readonly offsetMs: number;
}

/** A time zone of the IANA database, as Node.js knows it. */
export class TimeZone {
  private readonly format: Intl.DateTimeFormat;

  /** @throws Refusal INVALID_REQUEST */
  constructor(name: string) {
    try {
      this.format = new Intl.DateTimeFormat('en-US', {
        timeZone: name,
        hourCycle: 'h23',
        era: 'short',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      });
    } catch {
      throw new Refusal(
        'INVALID_REQUEST',
        'time_zone must be a name of the IANA database, such as Europe/Berlin',
        {
          field: 'time_zone',
        },
      );
    }
  }

  offsetMs(atMs: number): number {
    const parts = Object.fromEntries(this.format.formatToParts(atMs).map(({ type, value }) => [type, value]));
    const { year, month, day, hour, minute, second } = parts;
    const localMs = Date.UTC(
      Number(year),
      Number(month) - 1,
      Number(day),
      Number(hour),
      Number(minute),
      Number(second),
    );
    return localMs - Math.floor(atMs / 1000) * 1000;
  }

  /** The offsets from one instant to another, the first of them from the beginning on. */
  offsets(fromMs: number, toMs: number): ZoneOffset[] {
    const found = [{ fromMs, offsetMs: this.offsetMs(fromMs) }];
    for (let atMs = fromMs; atMs < toMs;) {
      const nextMs = Math.min(atMs + STEP_MS, toMs);
      const { offsetMs } = found.at(-1) as ZoneOffset;
      if (this.offsetMs(nextMs) === offsetMs) {
        atMs = nextMs;
      } else {
        atMs = this.changeBetween(atMs, nextMs, offsetMs);
        found.push({ fromMs: atMs, offsetMs: this.offsetMs(atMs) });
      }
    }
    return found;
  }

  /** The first millisecond with another offset. */
  private changeBetween(beforeMs: number, afterMs: number, offsetMs: number): number {
    let [before, after] = [beforeMs, afterMs];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      [before, after] = this.offsetMs(middle) === offsetMs ? [middle, after] : [before, middle];
    }
    return after;
  }
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
