import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { LARGEST_FACTOR, timeFactor } from './jest/time-factor.mjs';

/**
 * How long an idle machine with two processors takes for `WORK` in this many processes. The tests' limits
 * were chosen on such a machine.
 */
const USUAL_MS = 670;
const PROCESSES = 4;
const WORK =
  "const { createHash } = require('node:crypto'); let t = ''; for (let i = 0; i < 150000; i += 1) t = createHash('sha256').update(t + i).digest('hex');";
/**
 * A time limit adapted to the speed of the machine. Do not use it for durations that the behavior under test
 * promises.
 */
export function patience(ms: number): number {
  return Math.ceil(ms * timeFactor());
}

/**
 * How slow the machine is now, measured with as many processes as jest has workers, because what counts is
 * the capacity that other programs leave.
 */
export async function slowness(): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: PROCESSES }, () =>
      once(spawn(process.execPath, ['-e', WORK], { stdio: 'ignore' }), 'exit'),
    ),
  );
  return (performance.now() - startedAt) / USUAL_MS;
}

/** Measures once per run, before the first limit applies. */
export async function setTimeFactor(): Promise<void> {
  if ((process.env['TEST_TIME_FACTOR'] ?? process.env['TEST_MEASURED_FACTOR']) !== undefined) {
    return;
  }
  const factor = Math.min(LARGEST_FACTOR, Math.max(1, await slowness()));
  process.env['TEST_MEASURED_FACTOR'] = factor.toFixed(1);
  if (factor > 1.5) {
    process.stderr.write(
      `this machine is busy or slow: time limits are ${factor.toFixed(1)} times as long as usual\n`,
    );
  }
}
