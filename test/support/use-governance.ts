import { afterAll, beforeAll } from '@jest/globals';
import type { AppOptions } from '../../src/app/create-app.js';
import { Holdfast } from './holdfast.js';
import { startStore, type Store } from './store.js';
import { StoredRecords } from './stored-records.js';

export interface Governance {
  holdfast: Holdfast;
  stored: StoredRecords;
  redis: Store;
}

/**
 * An instance on a Redis of its own for a file's tests: operators list everybody's records, so a record that another file
 * damages on purpose would fail this file's lists, and the other way round.
 */
export function useGovernance(options: AppOptions = {}, env: Record<string, string> = {}): Governance {
  const parts: Partial<Governance> = {};
  beforeAll(async () => {
    parts.redis = await startStore();
    parts.stored = new StoredRecords(parts.redis.url);
    parts.holdfast = await Holdfast.start({ REDIS_URL: parts.redis.url, ...env }, options);
  });
  afterAll(async () => {
    await parts.holdfast?.stop();
    await parts.stored?.close();
    await parts.redis?.stop();
  });
  return parts as Governance;
}
