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
 * An instance with its own Redis for the tests of a file. Operators list the records of all tenants, so a
 * record that one file damages on purpose would break the lists of another.
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
