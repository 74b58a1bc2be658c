import { Injectable } from '@nestjs/common';
import { outcomesKey, RedisService, retryingKey, toStoreError } from '../../redis/index.js';
import type { DeliveryAddress } from './delivery.js';
import { isRef, partsOfRef } from './delivery-id.js';
import { DeliveryStore } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Outcomes } from './outcomes.js';
import { RetryQueue } from './retry-queue.js';

/** Only so many are taken up in one go; the next beat goes on. */
const LAST = '99';

/**
 * Takes up what a process left behind that died between two steps: retries without a job, and failures that were not counted against
 * their subscription. lua/dispatch_page.lua tells when there are any.
 */
@Injectable()
export class LeftOvers {
  constructor(
    private readonly redis: RedisService,
    private readonly store: DeliveryStore,
    private readonly outcomes: Outcomes,
    private readonly retries: RetryQueue,
    private readonly metrics: DispatchMetrics,
  ) {}

  /** @throws StoreUnavailable */
  async takeUp(partition: DispatchPartition): Promise<void> {
    const { tag } = partition;
    const { client } = this.redis;
    try {
      for (const ref of await client.zrange(outcomesKey(tag), 0, LAST)) {
        const { address, trace } = await this.find(partition, outcomesKey(tag), ref);
        if (address !== undefined) {
          this.metrics.leftOver('outcome');
          await this.outcomes.failed(address, trace);
        }
      }
      for (const ref of await client.zrange(retryingKey(tag), 0, LAST)) {
        const { address, dueInMs } = await this.find(partition, retryingKey(tag), ref);
        if (address !== undefined && dueInMs === 0) {
          this.metrics.leftOver('retry');
          await this.retries.plan(address, 1);
        }
      }
    } catch (error) {
      throw toStoreError(error);
    }
  }

  private async find(
    { code, tag }: DispatchPartition,
    index: string,
    ref: string,
  ): Promise<{ address: DeliveryAddress | undefined; dueInMs: number; trace: string }> {
    if (isRef(ref)) {
      const place = { partition: code, tag, ref, subscriptionId: partsOfRef(ref).subscriptionId };
      const { status, dueInMs, tenant, trace } = await this.store.find(place);
      if (status !== '') {
        return { address: { ...place, tenant }, dueInMs, trace };
      }
    }
    await this.redis.client.zrem(index, ref);
    return { address: undefined, dueInMs: 0, trace: '' };
  }
}
