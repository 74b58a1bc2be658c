import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  ConcurrencyLimiter,
  deliveryKey,
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
import type { DispatchPartition } from './dispatch-partition.js';
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

/** The deliveries of one tenant's events to one subscription that wait in Redis for their first attempt. */
interface OrderedQueue {
  /** `<subscription_id>:<tenant>` */
  readonly name: string;
  partition: DispatchPartition;
  /** Whether anything was pushed since the head of the queue was last read. */
  pushed: boolean;
  /** Its length, as last known. */
  left: number;
  /** When its first delivery was made, by Redis' clock. */
  oldestMs: number;
  /** How many to read at a time. Starts at one and doubles, so a queue that makes no progress costs one read per try, not a whole page. */
  pageSize: number;
  /** The work on it, while there is any. */
  pump: Promise<void> | undefined;
  /** Whether its endpoint was slow the last time. */
  isSlow: boolean;
  /** First attempts that failed since the last one that succeeded. */
  failuresInRow: number;
}

/**
 * First attempts, in order: one after the other in each queue, queues side by side. So a hanging endpoint delays only its own queue. A
 * failed attempt is scheduled as a retry before it leaves the queue, and a delivery leaves the queue only once it is settled, so a crash
 * repeats deliveries but loses none. Only successes are settled while the next attempt is already in flight.
 */
@Injectable()
export class OrderedQueues {
  /** Limits all attempts by subscription, including retries. */
  readonly limiter: ConcurrencyLimiter;
  private readonly queues = new Map<string, OrderedQueue>();

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.limiter = new ConcurrencyLimiter({ total: config.webhookConcurrency, perOwner: PER_SUBSCRIPTION });
  }

  /** Waiting deliveries, as far as this process knows. */
  get waiting(): number {
    return [...this.queues.values()].reduce((sum, { left }) => sum + left, 0);
  }

  /** Age of the oldest waiting delivery. */
  get oldestForMs(): number {
    const ages = [...this.queues.values()].map(({ oldestMs, partition }) => partition.nowMs() - oldestMs);
    return Math.max(0, ...ages);
  }

  /** Whether first attempts of a partition are in flight. */
  isBusy({ number }: DispatchPartition): boolean {
    return [...this.queues.values()].some(
      (queue) => queue.pump !== undefined && queue.partition.number === number,
    );
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
    const key = partition.tag + name;
    let queue = this.queues.get(key);
    if (queue === undefined) {
      queue = {
        name,
        partition,
        pushed: true,
        left: 0,
        oldestMs: Infinity,
        pageSize: 1,
        pump: undefined,
        isSlow: false,
        failuresInRow: 0,
      };
      this.queues.set(key, queue);
    }
    queue.partition = partition;
    queue.pushed = true;
    queue.left += pushed;
    this.startPump(queue);
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.limiter.close();
  }

  /** Resolves when nothing is in flight. */
  async idle(): Promise<void> {
    await Promise.all([...this.queues.values()].flatMap(({ pump }) => pump ?? []));
  }

  /** Runs at most one pump per queue, however often its partition is taken and lost. */
  private startPump(queue: OrderedQueue): void {
    queue.pump ??= this.pump(queue).finally(() => {
      queue.pump = undefined;
      if (queue.pushed && this.isOn(queue)) {
        this.startPump(queue);
      } else if (!this.limiter.isClosed) {
        this.queues.delete(queue.partition.tag + queue.name);
      }
    });
  }

  private isOn({ partition }: OrderedQueue): boolean {
    return partition.active && !this.limiter.isClosed;
  }

  /** Attempts the queue's deliveries until it is empty. Never rejects. */
  private async pump(queue: OrderedQueue): Promise<void> {
    while (this.isOn(queue) && (queue.pushed || queue.left > 0)) {
      try {
        await this.attemptPage(queue);
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
  }

  /** Attempts the first deliveries of a queue. @throws StoreUnavailable, AttemptPostponed, or an unexpected error */
  private async attemptPage(queue: OrderedQueue): Promise<void> {
    const { partition, name } = queue;
    queue.pushed = false;
    const head = this.redis.client.lrange(orderedQueueKey(partition.tag, name), 0, queue.pageSize - 1);
    const refs = await orStoreError(head);
    queue.left = refs.length === 0 ? 0 : Math.max(queue.left, refs.length);
    const [subscriptionId = '', ...tenant] = name.split(':');
    const settling = new Set<Promise<void>>();
    try {
      for (const read of await readDeliveries(this.redis, partition.code, refs)) {
        const delivery = { ...read, subscriptionId, tenant: tenant.join(':') };
        queue.oldestMs = delivery.createdMs;
        const verdict = await this.attemptFirst(queue, partition, delivery);
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
        await this.pauseAfterFailure(queue, verdict);
      }
    } finally {
      // The queue must not be read again before everything done has left it.
      await Promise.allSettled(settling);
    }
    await Promise.all(settling);
    queue.pageSize = Math.min(queue.pageSize * 2, PAGE);
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
    queue: OrderedQueue,
    partition: DispatchPartition,
    delivery: Delivery,
  ): Promise<Verdict | undefined> {
    const claim = { owner: delivery.subscriptionId, slow: queue.isSlow };
    // Another instance may have held the partition in between.
    const isCurrent = partition.active && queue.partition === partition;
    if (!isCurrent || (await this.limiter.acquire(claim)) !== 'acquired') {
      return undefined;
    }
    const began = performance.now();
    let verdict: Verdict;
    try {
      verdict = await this.attempts.attempt(delivery, partition.nowMs());
    } finally {
      this.limiter.release(claim);
      queue.isSlow = performance.now() - began > SLOW_MS;
    }
    const { retryInMs } = verdict;
    if (retryInMs !== undefined) {
      const { ref } = delivery;
      const keys = { delivery: deliveryKey(partition.tag, ref) };
      await this.redis.scripts.call('plan_retry', keys, { ref, retryInMs }).catch((error: unknown) => {
        // For example, Redis is full.
        this.metrics.counters.retriesNotStored.inc();
        throw error;
      });
      partition.retryIn(retryInMs);
    }
    return verdict;
  }
}
