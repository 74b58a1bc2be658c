import {
  apiKeyKey,
  budgetKey,
  eventLogKey,
  tagOfKeyId,
  tagOfTenant,
  tenantKey,
} from '../../src/redis/keyspace.js';
import { connectTo, type StoreClient } from './store.js';

const PARTITIONS = 64;

export interface StoredEvent {
  readonly type: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Reads and damages the stored governance records behind the service's back. */
export class StoredRecords {
  readonly redis: StoreClient;

  constructor(url: string) {
    this.redis = connectTo(url);
  }

  /** Works even if the server has been stopped. */
  async close(): Promise<void> {
    await this.redis.quit().catch(() => undefined);
    this.redis.disconnect();
  }

  tagOf(tenantId: string): string {
    return tagOfTenant(tenantId, PARTITIONS);
  }

  tenantKey(tenantId: string): string {
    return tenantKey(this.tagOf(tenantId), tenantId);
  }

  budgetKey(tenantId: string, below = '', unit = 'TOKENS'): string {
    return budgetKey(this.tagOf(tenantId), unit, `tenant:${tenantId}${below}`);
  }

  apiKeyKey(keyId: string): string {
    return apiKeyKey(tagOfKeyId(keyId, PARTITIONS) ?? '', keyId);
  }

  async setTenantStatus(tenantId: string, status: string): Promise<void> {
    await this.redis.hset(this.tenantKey(tenantId), 'status', status);
  }

  /** The tenant's events, oldest first. */
  async events(tenantId: string): Promise<StoredEvent[]> {
    const entries = await this.redis.xrange(eventLogKey(this.tagOf(tenantId)), '-', '+');
    return entries
      .map(([, flat]) =>
        Object.fromEntries(
          flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1] ?? '']] : [])),
        ),
      )
      .filter((fields) => fields['tn'] === tenantId)
      .map((fields) => ({ type: fields['ty'] as string, fields }));
  }
}
