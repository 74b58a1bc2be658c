import { setTimeout as delay } from 'node:timers/promises';
import { patience } from './time-limits.ts';

const POLL_MS = 10;
/** Pauses grow with the time waited so far, up to so many times the first: a long wait must not keep a processor busy. */
const PAUSE_SHARE = 1 / 20;
const PAUSE_GROWTH = 5;

/**
 * Looks again and again until `probe` returns something other than undefined and false, and returns it. What the probe
 * throws counts as "not yet"; the last of it is in the error when the time is over, which is longer on a busy machine.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  withinMs = 15_000,
  pollMs = POLL_MS,
): Promise<Exclude<T, undefined | false>> {
  const limitMs = patience(withinMs);
  const began = performance.now();
  let last: unknown;
  for (;;) {
    try {
      const seen = await probe();
      if (seen !== undefined && seen !== false) {
        return seen as Exclude<T, undefined | false>;
      }
      last = seen;
    } catch (error) {
      last = error;
    }
    const waitedMs = performance.now() - began;
    if (waitedMs > limitMs) {
      throw new Error(`did not happen within ${limitMs} ms: ${what} (last: ${String(last)})`, {
        cause: last,
      });
    }
    await delay(Math.min(pollMs * PAUSE_GROWTH, pollMs + waitedMs * PAUSE_SHARE));
  }
}
