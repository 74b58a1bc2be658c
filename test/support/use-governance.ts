import { afterAll, beforeAll } from '@jest/globals';
import type { AppOptions } from '../../src/http/app.js';
import { Holdfast } from './holdfast.js';
import { startRedis, type RedisServer } from './redis-server.js';
import { StoredRecords } from './stored-records.js';

export interface Governance {
  holdfast: Holdfast;
  stored: StoredRecords;
  redis: RedisServer;
}

/**
 * An instance on a Redis of its own for a file's tests: operators list everybody's records, so a record that another file
 * damages on purpose would fail this file's lists, and the other way round.
 */
export function useGovernance(options: AppOptions = {}): Governance {
  const parts: Partial<Governance> = {};
  beforeAll(async () => {
    parts.redis = await startRedis();
    parts.stored = new StoredRecords(parts.redis.url);
    parts.holdfast = await Holdfast.start({ REDIS_URL: parts.redis.url }, options);
  });
  afterAll(async () => {
    await parts.holdfast?.stop();
    await parts.stored?.close();
    await parts.redis?.stop();
  });
  return parts as Governance;
}
