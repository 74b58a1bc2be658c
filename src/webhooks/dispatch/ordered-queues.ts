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
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { AttemptPostponed, Attempts } from './attempts.js';
import { type Delivery, readDeliveries, type Verdict } from './delivery.js';
import type { DispatchPartition, OrderedQueue } from './dispatch-partition.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

/** An endpoint is slow if its last first attempt took longer than this. */
const SLOW_MS = 1000;
/** Concurrent attempts of one subscription: those of its queues, one per tenant, and its retries. */
export const PER_SUBSCRIPTION = 32;
/** Pause after an error. */
const PAUSE_MS = 250;
/** Longest pause between first attempts that fail in a row. */
const FAILURE_PAUSE_MS = 100;
/** Most deliveries of a queue that are read at a time, a few kilobytes each. */
const PAGE = 50;
/** What the deliveries of all queues may take that stay in memory from their queueing on, so that they need not be read. */
const READY_BYTES = 24 * 1024 * 1024;
/**
 * A queue may take at most one part in this many of what is free of that: about 1,000 deliveries when it is alone. So queues that get long
 * because their endpoints hang always leave some to the others.
 */
const PART_OF_FREE = 16;
/** What a delivery takes beside the event's bytes, about. */
const DELIVERY_BYTES = 1024;
/**
 * Deliveries of a queue that may be in Redis besides those in memory: some are just being attempted or settled, and few are a replay's. If
 * there are more, a replay has pushed many, which come first. QUEUE_SEARCHED of lua/webhooks/lib/delivery_record.lua is larger by UNSETTLED at least.
 */
const UNKNOWN_IN_QUEUE = 64;
/** Names of queues read at a time. */
const NAMES = 500;
/** Deliveries of a queue that their endpoint has accepted but whose success is not stored yet. A crash repeats them. */
const UNSETTLED = 32;

/**
 * First attempts, in order: one after the other in each queue, queues side by side. So a hanging endpoint delays only its own queue. A
 * failed attempt is scheduled as a retry before it leaves the queue, and a delivery leaves the queue only once it is settled, so a crash
 * repeats deliveries but loses none. Only successes are settled while the next attempt is already in flight. The queue in Redis is what
 * counts; this process remembers its head, so that what it has just queued need not be read back.
 */
@Injectable()
export class OrderedQueues {
  /** Limits all attempts by subscription, including retries. */
  readonly limiter: ConcurrencyLimiter;
  /** What the `ready` deliveries of all queues take. */
  private readyBytes = 0;

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly metrics: MetricsRegistry,
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
        names.forEach((name) => this.found(partition, name));
      }
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /**
   * Attempts a delivery that was just pushed to its queue, when its turn comes.
   * @param length of the queue then
   */
  push(partition: DispatchPartition, delivery: Delivery, length: number): void {
    const name = `${delivery.subscriptionId}:${delivery.tenant}`;
    const queue = partition.queues.get(name) ?? this.start(partition, name, false);
    this.forgetEarlierTerm(queue);
    queue.left += 1;
    const isBehindOthers = length > queue.ready.length + UNKNOWN_IN_QUEUE;
    const maxBytes = (READY_BYTES - this.readyBytes) / PART_OF_FREE;
    if (queue.hasMore || isBehindOthers || queue.readyBytes >= maxBytes) {
      queue.hasMore = true;
      queue.missed = true;
    } else {
      this.remember(queue, delivery);
    }
  }

  private found(partition: DispatchPartition, name: string): void {
    const known = partition.queues.get(name);
    if (known === undefined) {
      this.start(partition, name, true);
    } else {
      // A replay may have pushed to it.
      known.left = Math.max(known.left, 1);
    }
  }

  private start(partition: DispatchPartition, name: string, hasMore: boolean): OrderedQueue {
    const queue: OrderedQueue = {
      partition,
      name,
      ready: [],
      readyBytes: 0,
      term: partition.term,
      hasMore,
      missed: false,
      left: 0,
      oldestMs: Number.POSITIVE_INFINITY,
      pageSize: 1,
      isSlow: false,
      failuresInRow: 0,
    };
    partition.queues.set(name, queue);
    // Starts when the caller is done with the queue.
    void partition.track(Promise.resolve().then(() => this.drain(queue)));
    return queue;
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.limiter.close();
  }

  /** Attempts the queue's deliveries until it is empty. Never rejects. */
  private async drain(queue: OrderedQueue): Promise<void> {
    const { partition, name } = queue;
    const isEmpty = (): boolean => queue.ready.length === 0 && !queue.hasMore && queue.left <= 0;
    while (partition.active && !this.limiter.isClosed && !isEmpty()) {
      try {
        this.forgetEarlierTerm(queue);
        if (queue.ready.length === 0) {
          await this.read(queue);
        }
        await this.attemptReady(queue);
      } catch (error) {
        // The connection logs outages, and postponed attempts are counted.
        if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
          this.logger.error(
            { err: error, queue: name },
            'a delivery could not be attempted; it will be retried',
          );
        }
        this.forget(queue);
        queue.pageSize = 1;
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
    this.forget(queue);
    partition.queues.delete(name);
  }

  /** Reads the first deliveries of a queue. @throws StoreUnavailable */
  private async read(queue: OrderedQueue): Promise<void> {
    const { partition, name, pageSize } = queue;
    const { tag, code, term } = partition;
    queue.hasMore = true;
    queue.missed = false;
    const refs = await orStoreError(this.redis.client.lrange(orderedQueueKey(tag, name), 0, pageSize - 1));
    const [subscriptionId = '', ...tenant] = name.split(':');
    const deliveries = await readDeliveries(this.redis, code, refs);
    if (partition.term !== term) {
      return;
    }
    queue.left = refs.length === 0 ? 0 : Math.max(queue.left, refs.length);
    queue.hasMore = queue.missed || refs.length === pageSize;
    for (const read of deliveries) {
      this.remember(queue, { ...read, subscriptionId, tenant: tenant.join(':') });
    }
  }

  /** Attempts the deliveries of a queue that are known. @throws StoreUnavailable, AttemptPostponed, or an unexpected error */
  private async attemptReady(queue: OrderedQueue): Promise<void> {
    const settling = new Set<Promise<void>>();
    let hasFailed = false;
    try {
      for (let delivery = this.takeReady(queue); delivery !== undefined; delivery = this.takeReady(queue)) {
        queue.oldestMs = delivery.createdMs;
        const verdict = await this.attemptFirst(queue, delivery);
        if (verdict === undefined) {
          this.forget(queue);
          break;
        }
        const written = this.attempts.settle(delivery, verdict).then((left) => {
          queue.left = left;
          settling.delete(written);
        });
        settling.add(written);
        // The error is thrown where all are awaited, which is at the next delivery.
        written.catch(() => (hasFailed = true));
        if (verdict.outcome !== 'SUCCESS' || hasFailed) {
          await Promise.all(settling);
        } else if (settling.size >= UNSETTLED) {
          // The oldest. Waiting for all would leave the endpoint idle for as long as Redis takes.
          await settling.values().next().value;
        }
        queue.partition.retryIn(verdict.retryInMs ?? Number.POSITIVE_INFINITY);
        await this.pauseAfterFailure(queue, verdict);
      }
    } finally {
      // The queue must not be read again before everything done has left it.
      await Promise.allSettled(settling);
    }
    await Promise.all(settling);
    queue.pageSize = Math.min(queue.pageSize * 2, PAGE);
  }

  private remember(queue: OrderedQueue, delivery: Delivery): void {
    queue.ready.push(delivery);
    this.countBytes(queue, bytesOf(delivery));
  }

  /** @returns the first delivery; undefined if none is known, or another instance may have held the partition since */
  private takeReady(queue: OrderedQueue): Delivery | undefined {
    this.forgetEarlierTerm(queue);
    const delivery = queue.ready.shift();
    this.countBytes(queue, delivery === undefined ? 0 : -bytesOf(delivery));
    return delivery;
  }

  private countBytes(queue: OrderedQueue, bytes: number): void {
    queue.readyBytes += bytes;
    this.readyBytes += bytes;
  }

  private forgetEarlierTerm(queue: OrderedQueue): void {
    if (queue.term !== queue.partition.term) {
      this.forget(queue);
    }
  }

  /** Has the queue read from Redis again, because what is known of it may be wrong. */
  private forget(queue: OrderedQueue): void {
    this.countBytes(queue, -queue.readyBytes);
    queue.ready = [];
    queue.hasMore = true;
    queue.term = queue.partition.term;
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
      this.metrics.of(WEBHOOK_METRICS).failurePauses.inc({ for: 'first_attempt' });
      const pauseMs = Math.min(FAILURE_PAUSE_MS, 2 ** queue.failuresInRow) * (1 + Math.random());
      await delay(pauseMs, undefined, { ref: false });
    }
  }

  /** @returns undefined if nothing may start any more @throws as Attempts does; the delivery then stays first in its queue */
  private async attemptFirst(queue: OrderedQueue, delivery: Delivery): Promise<Verdict | undefined> {
    const { partition } = queue;
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

function bytesOf({ event }: Delivery): number {
  return DELIVERY_BYTES + (event?.body.length ?? 0);
}
