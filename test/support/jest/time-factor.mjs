import os from 'node:os';

/** The tests do not support machines that are slower than this, and a limit must end some time. */
export const LARGEST_FACTOR = 20;

/**
 * How many times longer than usual every limit is. TEST_TIME_FACTOR sets it. Otherwise it is what the run measured as it began, or more
 * while the machine is busier than then: how many processes have waited for each processor in the last minute.
 */
export function timeFactor() {
  const { TEST_TIME_FACTOR: given, TEST_MEASURED_FACTOR: measured = '1' } = process.env;
  if (given !== undefined) {
    return Number(given);
  }
  const [lastMinute = 0] = os.loadavg();
  return Math.max(Number(measured), Math.min(LARGEST_FACTOR, lastMinute / os.availableParallelism()));
}
