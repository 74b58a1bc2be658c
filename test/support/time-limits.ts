import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** What an idle machine of two processors, on which the limits of the tests were chosen, takes for `WORK` in so many processes. */
const USUAL_MS = 670;
const PROCESSES = 4;
const WORK =
  "const { createHash } = require('node:crypto'); let t = ''; for (let i = 0; i < 150000; i += 1) t = createHash('sha256').update(t + i).digest('hex');";
/** A machine that is slower than that is no place for these tests, and a limit that never ends is none. */
const LARGEST_FACTOR = 20;

/**
 * How many times as long as usual this machine takes, at least 1. Jest multiplies the limits of tests and hooks by it, and
 * everything else in tests that gives up after a time does so by `patience`. TEST_TIME_FACTOR says it beforehand.
 */
export function timeFactor(): number {
  return Number(process.env['TEST_TIME_FACTOR'] ?? 1);
}

/** A time limit that follows the speed of the machine. Not for what a behaviour says about time. */
export function patience(ms: number): number {
  return Math.ceil(ms * timeFactor());
}

/** How slow the machine is now, as many processes at a time as jest has workers: what counts is what is left beside everything else. */
export async function slowness(): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: PROCESSES }, () =>
      once(spawn(process.execPath, ['-e', WORK], { stdio: 'ignore' }), 'exit'),
    ),
  );
  return (performance.now() - startedAt) / USUAL_MS;
}

/** Measures once in a run, before its first limit. */
export async function setTimeFactor(): Promise<void> {
  if (process.env['TEST_TIME_FACTOR'] !== undefined) {
    return;
  }
  const factor = Math.min(LARGEST_FACTOR, Math.max(1, await slowness()));
  process.env['TEST_TIME_FACTOR'] = factor.toFixed(1);
  if (factor > 1.5) {
    process.stderr.write(
      `this machine is busy or slow: time limits are ${factor.toFixed(1)} times as long as usual\n`,
    );
  }
}
