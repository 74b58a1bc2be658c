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
import { AttemptPostponed, Attempts, type Verdict } from './attempts.js';
import { type Delivery, readDeliveries } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';

/** A first attempt that takes longer than this makes its endpoint a slow one until the next. */
const SLOW_MS = 1000;
/** Attempts of one subscription at the same time: it has a queue for each tenant. */
const PER_SUBSCRIPTION = 32;
/** After an error. */
const PAUSE_MS = 250;
/** Most deliveries of a queue that are read at a time, a few kilobytes each. */
const PAGE = 50;
/** Names of queues that are read at a time. */
const NAMES = 500;
/** How many of a queue may have been accepted by their endpoint while that is still being written down: a crash repeats them. */
const UNSETTLED = 16;

/** The deliveries of one tenant's events to one subscription that wait in Redis for their first attempt. */
interface OrderedQueue {
  /** `<subscription_id>:<tenant>` */
  readonly name: string;
  partition: DispatchPartition;
  /** Whether something was pushed since the head of the queue was last read. */
  pushed: boolean;
  /** How many there are, by the last that was heard. */
  left: number;
  /** When the first of them was made; Redis' time. */
  oldestMs: number;
  /** How many to read at a time. Starts at one and doubles, so a queue that stands still costs one read per try, not a whole page. */
  pageSize: number;
  isRunning: boolean;
  /** Whether its endpoint was slow to answer the last time. */
  isSlow: boolean;
}

/**
 * First attempts, in order: each queue strictly one after the other, queues side by side. So an endpoint that hangs delays its own queue
 * only. An attempt that failed is planned as a retry before it leaves the queue, and nothing leaves it before it is settled, so a crash
 * at any moment repeats deliveries and loses none. Only successes are settled while the next attempt is under way already.
 */
@Injectable()
export class OrderedQueues {
  /** Of all attempts by subscription, retries included. */
  readonly limiter: ConcurrencyLimiter;
  private readonly queues = new Map<string, OrderedQueue>();
  private readonly pumps = new Set<Promise<void>>();

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.limiter = new ConcurrencyLimiter({ total: config.webhookConcurrency, perOwner: PER_SUBSCRIPTION });
  }

  /** Deliveries that wait, as far as this process knows. */
  get waiting(): number {
    return [...this.queues.values()].reduce((sum, { left }) => sum + left, 0);
  }

  /** Age of the oldest of the deliveries that wait. */
  get oldestForMs(): number {
    const ages = [...this.queues.values()].map(({ oldestMs, partition }) => partition.nowMs() - oldestMs);
    return Math.max(0, ...ages);
  }

  /** Whether first attempts of a partition are under way. */
  isBusy({ number }: DispatchPartition): boolean {
    return [...this.queues.values()].some((queue) => queue.isRunning && queue.partition.number === number);
  }

  /** Finds the queues of a partition that others filled: a dispatcher before this one, or a replay. @throws StoreUnavailable */
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
        isRunning: false,
        isSlow: false,
      };
      this.queues.set(key, queue);
    }
    queue.partition = partition;
    queue.pushed = true;
    queue.left += pushed;
    this.run(queue);
  }

  /** Begins nothing any more; what is under way goes on. */
  close(): void {
    this.limiter.close();
  }

  /** Resolves when nothing is under way any more. */
  async idle(): Promise<void> {
    await Promise.all(this.pumps);
  }

  /** One pump at most for a queue, however often its partition is taken and lost. */
  private run(queue: OrderedQueue): void {
    if (queue.isRunning) {
      return;
    }
    queue.isRunning = true;
    const pump = this.pump(queue).finally(() => {
      queue.isRunning = false;
      this.pumps.delete(pump);
      if (queue.pushed && this.isOn(queue)) {
        this.run(queue);
      } else if (!this.limiter.isClosed) {
        this.queues.delete(queue.partition.tag + queue.name);
      }
    });
    this.pumps.add(pump);
  }

  private isOn({ partition }: OrderedQueue): boolean {
    return partition.active && !this.limiter.isClosed;
  }

  /** Until the queue is empty. Never rejects. */
  private async pump(queue: OrderedQueue): Promise<void> {
    while (this.isOn(queue) && (queue.pushed || queue.left > 0)) {
      try {
        await this.attemptPage(queue);
      } catch (error) {
        // The connection logs an outage once, and what is postponed is counted.
        if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
          this.logger.error(
            { err: error, queue: queue.name },
            'a delivery could not be attempted; it is tried again',
          );
        }
        queue.pushed = true;
        queue.pageSize = 1;
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
  }

  /** Attempts the first deliveries of a queue. @throws what stops it: StoreUnavailable, AttemptPostponed, or a defect */
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
        // One that fails stays among them, and is told of when they are waited for.
        written.catch(() => undefined);
        if (verdict.outcome !== 'SUCCESS' || settling.size >= UNSETTLED) {
          await Promise.all(settling);
        }
      }
    } finally {
      // What is still in Redis must not be read again before all that is done is out of it.
      await Promise.allSettled(settling);
    }
    await Promise.all(settling);
    queue.pageSize = Math.min(queue.pageSize * 2, PAGE);
  }

  /** @returns undefined when nothing may be begun any more @throws as Attempts does; the delivery is then still first in its queue */
  private async attemptFirst(
    queue: OrderedQueue,
    partition: DispatchPartition,
    delivery: Delivery,
  ): Promise<Verdict | undefined> {
    const claim = { owner: delivery.subscriptionId, slow: queue.isSlow };
    // Another instance may have had a partition that was lost and taken again.
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
        // As in a full Redis.
        this.metrics.counters.retriesNotStored.inc();
        throw error;
      });
      partition.retryIn(retryInMs);
    }
    return verdict;
  }
}
