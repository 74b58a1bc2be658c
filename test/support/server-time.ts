import { eventually } from './eventually.js';
import type { StoreClient } from './store.js';

const MINUTE_MS = 60_000;

/** The server's clock in whole milliseconds, by which the scripts decide. */
export async function serverTimeMs(redis: StoreClient): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}

/** Waits until the server's clock has reached the next millisecond. */
export async function nextMillisecond(redis: StoreClient): Promise<void> {
  for (const before = await serverTimeMs(redis); (await serverTimeMs(redis)) === before;) {
    // The clock of the server advances by itself.
  }
}

/**
 * Waits for the next minute of the server's clock unless most of the present one is left: what is counted by the minute must not begin
 * anew before the test has counted on it.
 */
export async function earlyInMinute(redis: StoreClient): Promise<void> {
  const isEarly = async (): Promise<boolean> => (await serverTimeMs(redis)) % MINUTE_MS < 45_000;
  await eventually('a minute has begun', isEarly, 20_000, 100);
}
