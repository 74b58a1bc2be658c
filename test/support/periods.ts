import { budgetKey, periodIndexKey, tagOfTenant } from '../../src/redis/keyspace.js';
import type { StoreClient } from './store.js';

const PARTITIONS = 64;
const DAY_MS = 86_400_000;

/**
 * Moves the end of the current period of a tenant's root budget, in its record and in the index, so that no
 * test has to wait for it.
 */
export async function endPeriodAt(redis: StoreClient, tenantId: string, ms: number): Promise<void> {
  const tag = tagOfTenant(tenantId, PARTITIONS);
  const scope = `tenant:${tenantId}`;
  await redis.hset(budgetKey(tag, 'TOKENS', scope), 'period_start', ms - DAY_MS, 'period_end', ms);
  await redis.zadd(periodIndexKey(tag), ms, `${scope} TOKENS`);
}
