// How long a benchmark takes, and how it waits.
import { setTimeout as delay } from 'node:timers/promises';

/** BENCH_SHORT=1 runs a benchmark in a fraction of its time, to test it. The report says that its figures are meaningless. */
export const SHORT = process.env.BENCH_SHORT === '1';

/**
 * The first value for a measurement, the second one for a test of the benchmark.
 * @template Value
 * @param {Value} usual
 * @param {Value} short
 */
export const unlessShort = (usual, short) => (SHORT ? short : usual);

const POLL_MS = 50;

/**
 * Asks until the answer is true, and resolves with it.
 * @template Value
 * @param {() => Promise<Value>} ask
 * @param {number} withinMs
 * @param {string} failure what is said when the time is over
 * @param {number} [pollMs]
 * @returns {Promise<Value>}
 */
export async function until(ask, withinMs, failure, pollMs = POLL_MS) {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await ask();
    if (found) {
      return found;
    }
    if (performance.now() > deadline) {
      throw new Error(`${failure} within ${withinMs} ms`);
    }
    await delay(pollMs);
  }
}
