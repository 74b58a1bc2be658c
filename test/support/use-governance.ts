import { afterAll, beforeAll } from '@jest/globals';
import type { AppOptions } from '../../src/app/create-app.js';
import { Holdfast } from './holdfast.js';
import type { Settings } from './settings.js';
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
export function useGovernance(options: AppOptions = {}, settings: Settings = {}): Governance {
  const parts: Partial<Governance> = {};
  beforeAll(async () => {
    parts.redis = await startStore();
    parts.stored = new StoredRecords(parts.redis.url);
    parts.holdfast = await Holdfast.start({ REDIS_URL: parts.redis.url, ...settings }, options);
  });
  afterAll(async () => {
    await parts.holdfast?.stop();
    await parts.stored?.close();
    await parts.redis?.stop();
  });
  return parts as Governance;
}
