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
import { type Attempted, type Delivery, readDeliveries, type Verdict } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { OrderedQueue, type Page, type ReadHead, type ReadyMemory } from './ordered-queue.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

/** An endpoint is slow if its last first attempt took longer than this. */
const SLOW_MS = 1000;
/** Concurrent attempts of one subscription: those of its queues, one per tenant, and its retries. */
export const PER_SUBSCRIPTION = 32;
/** Pause after an error. */
const PAUSE_MS = 250;
/** Longest pause between first attempts that fail in a row. */
const FAILURE_PAUSE_MS = 100;
/** Names of queues read at a time. */
const NAMES = 500;
/** From this many deliveries on that their endpoint has accepted but whose success is not stored yet, a queue waits. A crash repeats them. */
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
  readonly limiter = new ConcurrencyLimiter({
    total: this.config.webhookConcurrency,
    perOwner: PER_SUBSCRIPTION,
  });
  private readonly memory: ReadyMemory = { bytes: 0 };

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

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
    (partition.queues.get(name) ?? this.start(partition, name, 'empty')).push(delivery, length);
  }

  private found(partition: DispatchPartition, name: string): void {
    const known = partition.queues.get(name);
    if (known === undefined) {
      this.start(partition, name, 'found');
    } else {
      // A replay may have pushed to it.
      known.left = Math.max(known.left, 1);
    }
  }

  private start(partition: DispatchPartition, name: string, how: 'found' | 'empty'): OrderedQueue {
    const readHead: ReadHead = (...page) => this.readHead(partition, name, ...page);
    const queue = new OrderedQueue(partition, name, this.memory, readHead, how);
    partition.queues.set(name, queue);
    // Starts when the caller is done with the queue.
    void partition.track(Promise.resolve().then(() => this.drain(partition, queue)));
    return queue;
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.limiter.close();
  }

  /** Attempts the queue's deliveries until it is empty. Never rejects. */
  private async drain(partition: DispatchPartition, queue: OrderedQueue): Promise<void> {
    while (partition.active && !this.limiter.isClosed && !queue.isEmpty) {
      try {
        queue.forgetEarlierTerm();
        if (!queue.hasReady) {
          queue.enter('reading');
          await queue.read([]);
        }
        await this.attemptReady(partition, queue);
      } catch (error) {
        queue.enter('pausing');
        // The connection logs outages, and postponed attempts are counted.
        if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
          this.logger.error(
            { err: error, queue: queue.name },
            'a delivery could not be attempted; it will be retried',
          );
        }
        queue.beginAnew();
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
    queue.enter('ended');
    queue.forget();
    partition.queues.delete(queue.name);
  }

  /** @throws StoreUnavailable */
  private async readHead(
    partition: DispatchPartition,
    name: string,
    count: number,
    skipped: ReadonlySet<string>,
  ): Promise<Page> {
    const refs = await orStoreError(
      this.redis.client.lrange(orderedQueueKey(partition.tag, name), 0, count - 1),
    );
    const [subscriptionId = '', ...tenant] = name.split(':');
    const next = refs.filter((ref) => !skipped.has(ref));
    const deliveries = await readDeliveries(this.redis, partition.code, next);
    return {
      length: refs.length,
      deliveries: deliveries.map((read) => ({ ...read, subscriptionId, tenant: tenant.join(':') })),
    };
  }

  /**
   * Attempts the deliveries of a queue, until none is known that could be next, and reads on before they run out. What is read leaves out
   * those that are still under way. @throws StoreUnavailable, AttemptPostponed, or an unexpected error
   */
  private async attemptReady(partition: DispatchPartition, queue: OrderedQueue): Promise<void> {
    queue.enter('attempting');
    // The outcomes that are being stored, oldest first.
    const underWay = new Map<string, Promise<void>>();
    let hasFailed = false;
    try {
      for (;;) {
        if (!queue.hasReady && queue.goesOn && partition.active) {
          await queue.read(underWay.keys());
        }
        const delivery = queue.take();
        if (delivery === undefined) {
          break;
        }
        queue.oldestMs = delivery.createdMs;
        const attempted = await this.attemptFirst(partition, queue, delivery);
        if (attempted === undefined) {
          queue.forget();
          break;
        }
        for (const one of attempted) {
          const { ref } = one.delivery;
          const stored = this.attempts.outcomes.settle(one.delivery, one.verdict).then((left) => {
            queue.left = left;
            underWay.delete(ref);
          });
          underWay.set(ref, stored);
          // The error is thrown where all are awaited, which is at the next request.
          stored.catch(() => (hasFailed = true));
          partition.retryIn(one.verdict.retryInMs ?? Number.POSITIVE_INFINITY);
        }
        const [{ verdict }] = attempted;
        if (queue.isRunningLow) {
          void queue.read(underWay.keys());
        }
        if (verdict.outcome !== 'SUCCESS' || hasFailed) {
          await Promise.all(underWay.values());
        } else if (underWay.size >= UNSETTLED) {
          // The oldest. Waiting for all would leave the endpoint idle for as long as Redis takes.
          await underWay.values().next().value;
        }
        await this.pauseAfterFailure(queue, verdict);
      }
    } finally {
      queue.enter('settling');
      await Promise.allSettled(underWay.values());
    }
    await Promise.all(underWay.values());
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
  private async attemptFirst(
    partition: DispatchPartition,
    queue: OrderedQueue,
    delivery: Delivery,
  ): Promise<readonly [Attempted, ...Attempted[]] | undefined> {
    const claim = { owner: delivery.subscriptionId, slow: queue.isSlow };
    if (!partition.active || (await this.limiter.acquire(claim)) !== 'acquired') {
      return undefined;
    }
    const began = performance.now();
    try {
      return await this.attempts.attempt(delivery, partition.nowMs(), (fits) => queue.takeWhile(fits));
    } finally {
      this.limiter.release(claim);
      queue.isSlow = performance.now() - began > SLOW_MS;
    }
  }
}
