import {
  cleanupIndexKey,
  reservationKey,
  tagOfReservationId,
  tagOfTenant,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { holdFields } from './hold-record.js';
import { serverTimeMs } from './server-time.js';
import { connectTo, type StoreClient } from './store.js';

const PARTITIONS = 64;

/** Changes the stored times of holds behind the service's back, so that no test has to wait. */
export class StoredHolds {
  readonly redis: StoreClient;

  constructor(url: string) {
    this.redis = connectTo(url);
  }

  /**
   * Sets the hold's expiry to this offset from the server's clock, in the record and in the index. A negative
   * offset is in the past.
   */
  async expireIn(reservationId: string, offsetMs: number): Promise<void> {
    const tag = tagOfReservationId(reservationId, PARTITIONS) as string;
    const key = reservationKey(tag, reservationId);
    const expiresAt = (await serverTimeMs(this.redis)) + offsetMs;
    const graceMs = Number(await this.redis.hget(key, 'gr'));
    await this.redis.hset(key, 'ex', expiresAt);
    const manual = (await this.redis.hget(key, 'xp')) === 'm';
    await this.redis.zadd(
      manual ? cleanupIndexKey(tag) : ttlIndexKey(tag),
      expiresAt + graceMs,
      reservationId,
    );
  }

  async record(reservationId: string): Promise<Record<string, string>> {
    return holdFields(
      await this.redis.hgetall(
        reservationKey(tagOfReservationId(reservationId, PARTITIONS) as string, reservationId),
      ),
    );
  }

  /** Whether the sweeper still has to process this hold. */
  async isIndexed(reservationId: string): Promise<boolean> {
    const tag = tagOfReservationId(reservationId, PARTITIONS) as string;
    return (await this.redis.zscore(ttlIndexKey(tag), reservationId)) !== null;
  }

  tagOfTenant(tenantId: string): string {
    return tagOfTenant(tenantId, PARTITIONS);
  }

  /** Damages or repairs stored fields. */
  async set(reservationId: string, fields: Record<string, string>): Promise<void> {
    const tag = tagOfReservationId(reservationId, PARTITIONS) as string;
    await this.redis.hset(reservationKey(tag, reservationId), fields);
  }

  /** Can be called twice. ioredis would then wait for the end of a connection that has already ended. */
  close(): void {
    if (this.redis.status !== 'end') {
      this.redis.disconnect();
    }
  }
}
