import { patience } from './time-limits.js';

/**
 * The contract: whatever happens to Redis, no command waits longer than 2 s. Holdfast's own limit is 900 ms
 * of that; the rest allows for the machine.
 */
export const BOUND_MS = 900 + patience(1100);

const TICK_MS = 50;
/**
 * Of the time in which this process stood still, so much counts: it must not take its own time for that of Redis. So a Holdfast in the same
 * process that blocks the event loop is not seen here.
 */
const MOST_AT_ONCE_MS = 500;

let [ranMs, countedAt] = [0, performance.now()];
function count(): void {
  const now = performance.now();
  ranMs += Math.min(now - countedAt, MOST_AT_ONCE_MS);
  countedAt = now;
}
setInterval(count, TICK_MS).unref();

/** Like performance.now(), but without most of the time in which this process stood still. */
export function runningMs(): number {
  count();
  return ranMs;
}

export interface Outcome {
  readonly tookMs: number;
  readonly error: unknown;
}

/** The outcome of one command and how long it took, whether it succeeded or failed. */
export async function timed(command: () => Promise<unknown>): Promise<Outcome> {
  const startedAt = runningMs();
  try {
    await command();
    return { tookMs: runningMs() - startedAt, error: undefined };
  } catch (error) {
    return { tookMs: runningMs() - startedAt, error };
  }
}

/**
 * Sends commands in small waves for a while, so that some join a batch that is already waiting. Returns all
 * outcomes.
 */
export async function hammer(command: () => Promise<unknown>, forMs: number): Promise<Outcome[]> {
  const outcomes: Promise<Outcome>[] = [];
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    for (let i = 0; i < 5; i += 1) {
      outcomes.push(timed(command));
    }
    await new Promise((done) => setTimeout(done, 5));
  }
  return Promise.all(outcomes);
}

export function slowest(outcomes: readonly Outcome[]): number {
  return Math.max(...outcomes.map(({ tookMs }) => tookMs));
}
