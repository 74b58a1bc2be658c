import type { StoreClient } from './store.js';

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
