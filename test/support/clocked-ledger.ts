import { afterAll, beforeAll } from '@jest/globals';
import { Redis } from 'ioredis';
import { testClockKey } from '../../src/redis/keyspace.js';
import { libraryWithTestClock } from '../../src/redis/script-library.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { LedgerClient } from './ledger-client.js';
import { startRedis, type RedisServer } from './redis-server.js';

export interface ClockedLedgers {
  readonly make: () => Promise<LedgerClient>;
  /** Lets the time of all of them stand at this instant. */
  readonly stand: (ms: number) => Promise<unknown>;
}

/**
 * Ledgers on a Redis of their own whose functions have a test clock. So a test sets the time of functions that keep something in memory
 * between runs, which `clockAt` cannot.
 */
export function useClockedLedgers(): ClockedLedgers {
  let server: RedisServer;
  let redis: Redis;
  let scripts: ScriptRegistry;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
    scripts = new ScriptRegistry(redis, libraryWithTestClock());
    await scripts.load();
  });
  afterAll(async () => {
    await redis.quit();
    await server.stop();
  });
  return {
    make: async () => (await LedgerClient.make(redis)).over(redis, scripts),
    stand: (ms) => redis.hset(testClockKey(), 'stands_at', ms),
  };
}
