import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  ConcurrencyLimiter,
  orderedQueueKey,
  orderedQueuesKey,
  orStoreError,
  RedisService,
  StoreUnavailable,
  toStoreError,
} from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { AttemptPostponed, Attempts } from './attempts.js';
import { type Delivery, readDeliveries, type Verdict } from './delivery.js';
import type { DispatchPartition, OrderedQueue } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';

/** An endpoint is slow if its last first attempt took longer than this. */
const SLOW_MS = 1000;
/** Concurrent attempts of one subscription, which has a queue per tenant. */
const PER_SUBSCRIPTION = 32;
/** Pause after an error. */
const PAUSE_MS = 250;
/** Longest pause between first attempts that fail in a row. */
const FAILURE_PAUSE_MS = 100;
/** Most deliveries of a queue that are read at a time, a few kilobytes each. */
const PAGE = 50;
/** Names of queues read at a time. */
const NAMES = 500;
/** Deliveries of a queue that their endpoint has accepted but whose success is not stored yet. A crash repeats them. */
const UNSETTLED = 16;

/**
 * First attempts, in order: one after the other in each queue, queues side by side. So a hanging endpoint delays only its own queue. A
 * failed attempt is scheduled as a retry before it leaves the queue, and a delivery leaves the queue only once it is settled, so a crash
 * repeats deliveries but loses none. Only successes are settled while the next attempt is already in flight.
 */
@Injectable()
export class OrderedQueues {
  /** Limits all attempts by subscription, including retries. */
  readonly limiter: ConcurrencyLimiter;

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.limiter = new ConcurrencyLimiter({ total: config.webhookConcurrency, perOwner: PER_SUBSCRIPTION });
  }

  /** Finds queues of a partition that were filled by a previous holder or a replay. @throws StoreUnavailable */
  async find(partition: DispatchPartition): Promise<void> {
    const scan = this.redis.client.sscanStream(orderedQueuesKey(partition.tag), { count: NAMES });
    try {
      for await (const names of scan as AsyncIterable<string[]>) {
        names.forEach((name) => this.start(partition, name, 0));
      }
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /** @param pushed how many deliveries were just pushed to the queue */
  start(partition: DispatchPartition, name: string, pushed: number): void {
    const known = partition.queues.get(name);
    if (known !== undefined) {
      known.pushed = true;
      known.left += pushed;
      return;
    }
    const queue = {
      name,
      pushed: true,
      left: pushed,
      oldestMs: Number.POSITIVE_INFINITY,
      pageSize: 1,
      isSlow: false,
      failuresInRow: 0,
    };
    partition.queues.set(name, queue);
    void partition.track(this.drain(partition, queue));
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.limiter.close();
  }

  /** Attempts the queue's deliveries until it is empty. Never rejects. */
  private async drain(partition: DispatchPartition, queue: OrderedQueue): Promise<void> {
    while (partition.active && !this.limiter.isClosed && (queue.pushed || queue.left > 0)) {
      try {
        await this.attemptPage(partition, queue);
      } catch (error) {
        // The connection logs outages, and postponed attempts are counted.
        if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
          this.logger.error(
            { err: error, queue: queue.name },
            'a delivery could not be attempted; it will be retried',
          );
        }
        queue.pushed = true;
        queue.pageSize = 1;
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
    partition.queues.delete(queue.name);
  }

  /** Attempts the first deliveries of a queue. @throws StoreUnavailable, AttemptPostponed, or an unexpected error */
  private async attemptPage(partition: DispatchPartition, queue: OrderedQueue): Promise<void> {
    const { tag, code, term } = partition;
    const { name, pageSize } = queue;
    queue.pushed = false;
    const refs = await orStoreError(this.redis.client.lrange(orderedQueueKey(tag, name), 0, pageSize - 1));
    queue.left = refs.length === 0 ? 0 : Math.max(queue.left, refs.length);
    const [subscriptionId = '', ...tenant] = name.split(':');
    const settling = new Set<Promise<void>>();
    try {
      for (const read of await readDeliveries(this.redis, code, refs)) {
        const delivery = { ...read, subscriptionId, tenant: tenant.join(':') };
        queue.oldestMs = delivery.createdMs;
        // Another instance may have held the partition in between.
        const verdict =
          partition.term === term ? await this.attemptFirst(partition, queue, delivery) : undefined;
        if (verdict === undefined) {
          break;
        }
        const written = this.attempts.settle(delivery, verdict).then((left) => {
          queue.left = left;
          settling.delete(written);
        });
        settling.add(written);
        // Avoids an unhandled rejection. The error is thrown where all are awaited.
        written.catch(() => undefined);
        if (verdict.outcome !== 'SUCCESS' || settling.size >= UNSETTLED) {
          await Promise.all(settling);
        }
        partition.retryIn(verdict.retryInMs ?? Number.POSITIVE_INFINITY);
        await this.pauseAfterFailure(queue, verdict);
      }
    } finally {
      // The queue must not be read again before everything done has left it.
      await Promise.allSettled(settling);
    }
    await Promise.all(settling);
    queue.pageSize = Math.min(pageSize * 2, PAGE);
  }

  /**
   * Pauses longer after each failure in a row. An endpoint that fails at once, because its name has no address for example, would otherwise
   * use as much of this process and of Redis as there are events.
   */
  private async pauseAfterFailure(queue: OrderedQueue, { outcome, durationMs }: Verdict): Promise<void> {
    if (durationMs === undefined) {
      return;
    }
    queue.failuresInRow = outcome === 'SUCCESS' ? 0 : queue.failuresInRow + 1;
    if (queue.failuresInRow > 0 && queue.left > 0) {
      this.metrics.counters.failurePauses.inc({ for: 'first_attempt' });
      const pauseMs = Math.min(FAILURE_PAUSE_MS, 2 ** queue.failuresInRow) * (1 + Math.random());
      await delay(pauseMs, undefined, { ref: false });
    }
  }

  /** @returns undefined if nothing may start any more @throws as Attempts does; the delivery then stays first in its queue */
  private async attemptFirst(
    partition: DispatchPartition,
    queue: OrderedQueue,
    delivery: Delivery,
  ): Promise<Verdict | undefined> {
    const claim = { owner: delivery.subscriptionId, slow: queue.isSlow };
    if (!partition.active || (await this.limiter.acquire(claim)) !== 'acquired') {
      return undefined;
    }
    const began = performance.now();
    try {
      return await this.attempts.attempt(delivery, partition.nowMs());
    } finally {
      this.limiter.release(claim);
      queue.isSlow = performance.now() - began > SLOW_MS;
    }
  }
}
