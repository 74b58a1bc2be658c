import { setTimeout as delay } from 'node:timers/promises';
import { patience } from './time-limits.ts';

const POLL_MS = 10;
/**
 * The pause grows with the time waited so far, up to a multiple of the first pause: a long wait must not keep
 * a processor busy.
 */
const PAUSE_SHARE = 1 / 20;
const PAUSE_GROWTH = 5;

/**
 * Calls `probe` repeatedly until it returns something other than undefined and false, and returns that. An
 * error from the probe counts as "not yet"; the last one is part of the timeout's error. The time limit is
 * longer on a busy machine, and the last probe begins after it: the process may be held up during any other.
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
    const askedAfterMs = performance.now() - began;
    try {
      const seen = await probe();
      if (seen !== undefined && seen !== false) {
        return seen as Exclude<T, undefined | false>;
      }
      last = seen;
    } catch (error) {
      last = error;
    }
    if (askedAfterMs > limitMs) {
      throw new Error(`did not happen within ${limitMs} ms: ${what} (last: ${String(last)})`, {
        cause: last,
      });
    }
    await delay(Math.min(pollMs * PAUSE_GROWTH, pollMs + askedAfterMs * PAUSE_SHARE));
  }
}
