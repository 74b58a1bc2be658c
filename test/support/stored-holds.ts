import {
  cleanupIndexKey,
  partitionCode,
  partitionOfTenant,
  reservationKey,
  tagOf,
  tagOfReservationId,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { holdFields } from './hold-record.js';
import { serverTimeMs } from './server-time.js';
import { connectTo, type StoreClient } from './store.js';

const PARTITIONS = 64;

/** Reaches behind the service to move the stored time of holds, so that no test has to wait for it to pass. */
export class StoredHolds {
  readonly redis: StoreClient;

  constructor(url: string) {
    this.redis = connectTo(url);
  }

  /** Puts the hold's expiry so many milliseconds away from the server's clock (negative: into the past), in record and index. */
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

  /** Whether the sweeper still has this hold before it. */
  async isIndexed(reservationId: string): Promise<boolean> {
    const tag = tagOfReservationId(reservationId, PARTITIONS) as string;
    return (await this.redis.zscore(ttlIndexKey(tag), reservationId)) !== null;
  }

  tagOfTenant(tenantId: string): string {
    return tagOf(partitionCode(partitionOfTenant(tenantId, PARTITIONS)));
  }

  /** Breaks or mends a stored field. */
  async set(reservationId: string, fields: Record<string, string>): Promise<void> {
    const tag = tagOfReservationId(reservationId, PARTITIONS) as string;
    await this.redis.hset(reservationKey(tag, reservationId), fields);
  }

  /** May be called twice. ioredis would then wait for the end of a connection that has ended. */
  close(): void {
    if (this.redis.status !== 'end') {
      this.redis.disconnect();
    }
  }
}
