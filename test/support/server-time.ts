import type { StoreClient } from './store.js';

/** The server's clock in whole ms: the one that the scripts decide by. */
export async function serverTimeMs(redis: StoreClient): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}

/** Waits until the server's clock shows another millisecond. */
export async function nextMillisecond(redis: StoreClient): Promise<void> {
  for (const before = await serverTimeMs(redis); (await serverTimeMs(redis)) === before;) {
    // The server's clock goes on by itself.
  }
}
