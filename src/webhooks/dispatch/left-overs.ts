import { Injectable } from '@nestjs/common';
import { outcomesKey, RedisService, retryingKey, StoreUnavailable, toStoreError } from '../../redis/index.js';
import { isRef, partsOfRef } from './delivery-id.js';
import { DeliveryStore } from './delivery-store.js';
import type { DeliveryAddress } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Outcomes } from './outcomes.js';
import { RetryQueue } from './retry-queue.js';

/** Only so many of an index are taken up in one go; the next beat goes on. */
const AT_ONCE = 100;

/** A delivery that an index names. */
interface Found {
  readonly address: DeliveryAddress;
  readonly dueInMs: number;
  readonly trace: string;
}

/** Takes up one entry. @returns false when neither it nor any behind it is left over */
type TakeUp = (found: Found) => Promise<boolean>;

/**
 * Takes up what a process left behind that died between two steps: retries without a job, and failures that were not counted against
 * their subscription. lua/dispatch_page.lua tells when there are any.
 */
@Injectable()
export class LeftOvers {
  /** By index, how many of its entries stayed though they were taken up. The next beat passes them over, or they would hide all behind them. */
  private readonly passed = new Map<string, number>();

  constructor(
    private readonly redis: RedisService,
    private readonly store: DeliveryStore,
    private readonly outcomes: Outcomes,
    private readonly retries: RetryQueue,
    private readonly metrics: DispatchMetrics,
  ) {}

  /** @throws StoreUnavailable at once; the first other error when both indexes have had their turn */
  async takeUp(partition: DispatchPartition): Promise<void> {
    const failures = [
      ...(await this.walk(partition, outcomesKey(partition.tag), async ({ address, trace }) => {
        this.metrics.leftOver('outcome');
        await this.outcomes.failed(address, trace);
        return true;
      })),
      ...(await this.walk(partition, retryingKey(partition.tag), async ({ address, dueInMs }) => {
        if (dueInMs > 0) {
          return false;
        }
        this.metrics.leftOver('retry');
        await this.retries.plan(address, 1);
        return true;
      })),
    ];
    if (failures.length > 0) {
      throw failures[0];
    }
  }

  /**
   * The next entries of an index, the oldest first, and from its beginning again after its end. One that cannot be taken up stays, and
   * stops none behind it.
   * @returns the errors of such entries @throws StoreUnavailable
   */
  private async walk(partition: DispatchPartition, index: string, takeUp: TakeUp): Promise<unknown[]> {
    const failures: unknown[] = [];
    const first = this.passed.get(index) ?? 0;
    const refs = await this.asked(
      this.redis.client.zrange(index, String(first), String(first + AT_ONCE - 1)),
    );
    let goesOn = refs.length === AT_ONCE;
    for (const ref of refs) {
      try {
        const found = await this.find(partition, index, ref);
        if (found !== undefined && !(await takeUp(found))) {
          goesOn = false;
          break;
        }
      } catch (error) {
        if (error instanceof StoreUnavailable) {
          throw error;
        }
        failures.push(error);
      }
    }
    const stayed = goesOn
      ? (await this.asked(this.redis.client.zmscore(index, ...refs))).filter((score) => score !== null).length
      : 0;
    this.passed.set(index, goesOn ? first + stayed : 0);
    return failures;
  }

  /** An entry that stands for nothing is removed. @throws StoreUnavailable */
  private async find(
    { code, tag }: DispatchPartition,
    index: string,
    ref: string,
  ): Promise<Found | undefined> {
    if (isRef(ref)) {
      const place = { partition: code, tag, ref, subscriptionId: partsOfRef(ref).subscriptionId };
      const { status, dueInMs, tenant, trace } = await this.store.find(place);
      if (status !== '') {
        return { address: { ...place, tenant }, dueInMs, trace };
      }
    }
    this.metrics.trimmedEntries(await this.asked(this.redis.client.zrem(index, ref)));
    return undefined;
  }

  private async asked<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw toStoreError(error);
    }
  }
}
