import { patience } from './time-limits.js';

/**
 * The contract: whatever happens to Redis, no command waits longer than 2 s. Holdfast's own limit is 900 ms
 * of that; the rest allows for the machine.
 */
export const BOUND_MS = 900 + patience(1100);

export interface Outcome {
  readonly tookMs: number;
  readonly error: unknown;
}

/** The outcome of one command and how long it took, whether it succeeded or failed. */
export async function timed(command: () => Promise<unknown>): Promise<Outcome> {
  const startedAt = performance.now();
  try {
    await command();
    return { tookMs: performance.now() - startedAt, error: undefined };
  } catch (error) {
    return { tookMs: performance.now() - startedAt, error };
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
