import { afterAll, beforeAll } from '@jest/globals';
import type { AppOptions } from '../../src/app/create-app.js';
import { Holdfast } from './holdfast.js';
import type { Settings } from './settings.js';
import { startStore, type Store } from './store.js';
import { StoredHolds } from './stored-holds.js';
import { StoredRecords } from './stored-records.js';

export interface Governance {
  holdfast: Holdfast;
  stored: StoredRecords;
  holds: StoredHolds;
  redis: Store;
}

/**
 * An instance with its own Redis for the tests of a file. Operators list the records of all tenants, so a
 * record that one file damages on purpose would break the lists of another; and requests of another file could
 * expire the holds that a file makes overdue.
 */
export function useGovernance(options: AppOptions = {}, settings: Settings = {}): Governance {
  const parts: Partial<Governance> = {};
  beforeAll(async () => {
    parts.redis = await startStore();
    parts.stored = new StoredRecords(parts.redis.url);
    parts.holds = new StoredHolds(parts.redis.url);
    parts.holdfast = await Holdfast.start({ REDIS_URL: parts.redis.url, ...settings }, options);
  });
  afterAll(async () => {
    await parts.holdfast?.stop();
    await parts.stored?.close();
    parts.holds?.close();
    await parts.redis?.stop();
  });
  return parts as Governance;
}
