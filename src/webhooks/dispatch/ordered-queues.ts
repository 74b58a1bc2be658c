import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { ConcurrencyLimiter } from '../../redis/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { StoreUnavailable } from '../../redis/index.js';
import { AttemptPostponed, Attempts, givenUp } from './attempts.js';
import { hasEnded, queueNameOf, type Delivery, type Verdict } from './delivery.js';
import { DeliveryStore } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueue } from './ordered-queue.js';
import { Settlement } from './settlement.js';

/** A first attempt that takes longer than this makes its endpoint a slow one until the next. */
const SLOW_MS = 1000;
/** Attempts of one subscription at the same time: it has a queue for each tenant. */
const PER_SUBSCRIPTION = 32;
const PAUSE_MS = 250;
/** Deliveries of a queue that are read from Redis at a time. */
const PAGE = 100;
/** Deliveries that are kept at hand in all queues together, a few kilobytes each. */
const KEPT = 20_000;

/**
 * First attempts, in order: each queue strictly one after the other, queues side by side. So an endpoint that hangs delays its own queue
 * only. An attempt that failed is planned as a retry before it leaves the queue, and nothing leaves it before it is settled, so a crash
 * at any moment repeats deliveries and loses none. Only successes are settled while the next attempt is under way already.
 */
@Injectable()
export class OrderedQueues {
  /** Of all attempts, retries included. */
  readonly limiter: ConcurrencyLimiter;
  private readonly queues = new Map<string, OrderedQueue>();
  private readonly pumps = new Set<Promise<void>>();

  constructor(
    private readonly store: DeliveryStore,
    private readonly attempts: Attempts,
    private readonly settlement: Settlement,
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

  /** When the oldest of the deliveries that wait was made, by Redis' clock. */
  get oldestMs(): number {
    return [...this.queues.values()].reduce(
      (oldest, { ready }) => Math.min(oldest, ready[0]?.createdMs ?? oldest),
      Number.POSITIVE_INFINITY,
    );
  }

  /** Whether first attempts of a partition are under way. */
  isBusy({ number }: DispatchPartition): boolean {
    return [...this.queues.values()].some(
      ({ isRunning, partition }) => isRunning && partition.number === number,
    );
  }

  /** Finds the queues of a partition that others filled: a dispatcher before this one, or a replay. @throws StoreUnavailable */
  async find(partition: DispatchPartition): Promise<void> {
    for (const name of await this.store.queueNames(partition.tag)) {
      const known = this.queues.get(partition.tag + name);
      if (known === undefined || known.partition !== partition) {
        const queue = this.queueNamed(partition, name);
        queue.forget();
        this.start(queue);
      }
    }
  }

  /** Deliveries that were just queued. */
  add(partition: DispatchPartition, deliveries: readonly Delivery[]): void {
    let room = KEPT - [...this.queues.values()].reduce((sum, { ready }) => sum + ready.length, 0);
    for (const delivery of deliveries) {
      const name = queueNameOf(delivery);
      const isKnown = this.queues.has(partition.tag + name);
      const queue = this.queueNamed(partition, name);
      if (!isKnown) {
        // The queues of the partition were all found before its first event was queued, so this one was empty.
        queue.more = false;
      }
      queue.add(delivery, room > 0);
      room -= 1;
      this.start(queue);
    }
  }

  /** Begins nothing any more; what is under way goes on. */
  close(): void {
    this.limiter.close();
  }

  /** Resolves when nothing is under way any more. */
  async idle(): Promise<void> {
    await Promise.all(this.pumps);
  }

  private queueNamed(partition: DispatchPartition, name: string): OrderedQueue {
    const key = partition.tag + name;
    let queue = this.queues.get(key);
    if (queue === undefined) {
      const [subscriptionId = '', ...tenant] = name.split(':');
      queue = new OrderedQueue(name, subscriptionId, tenant.join(':'), partition);
      this.queues.set(key, queue);
    }
    queue.partition = partition;
    return queue;
  }

  /** One pump at most for a queue, however often its partition is taken and lost. */
  private start(queue: OrderedQueue): void {
    if (queue.isRunning) {
      return;
    }
    queue.isRunning = true;
    const pump = this.pump(queue).finally(() => {
      queue.isRunning = false;
      this.pumps.delete(pump);
      if (!queue.partition.active || queue.isEmpty) {
        this.queues.delete(queue.partition.tag + queue.name);
      } else if (!this.limiter.isClosed) {
        this.start(queue);
      }
    });
    this.pumps.add(pump);
  }

  /** Never rejects. */
  private async pump(queue: OrderedQueue): Promise<void> {
    for (let isOver = false; !isOver;) {
      try {
        isOver = await this.step(queue);
      } catch (error) {
        this.logUnexpected(queue, error);
        await queue.settled().catch((further: unknown) => this.logUnexpected(queue, further));
        queue.forget();
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
  }

  /** The connection logs an outage once, and what is postponed is counted. */
  private logUnexpected(queue: OrderedQueue, error: unknown): void {
    if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
      this.logger.error(
        { err: error, queue: queue.name },
        'a delivery could not be attempted; it is tried again',
      );
    }
  }

  /** @returns whether there is nothing left to do. */
  private async step(queue: OrderedQueue): Promise<boolean> {
    const isOn = queue.partition.active && !this.limiter.isClosed;
    const [first] = queue.ready;
    if (isOn && first !== undefined) {
      await this.attemptFirst(queue, first);
      return false;
    }
    // What is still in Redis must not be read before all that is done is out of it.
    await queue.settled();
    if (isOn && queue.more && queue.ready.length === 0) {
      await this.read(queue);
    }
    return !isOn || queue.isEmpty;
  }

  private async read(queue: OrderedQueue): Promise<void> {
    const { partition, name, tenant, subscriptionId } = queue;
    queue.beginReading();
    const refs = await this.store.firstOf(partition.tag, name, PAGE);
    const deliveries = await this.store.read(partition, refs);
    queue.endReading(
      deliveries.map((delivery) => ({ ...delivery, tenant, subscriptionId })),
      refs.length < PAGE,
    );
  }

  private async attemptFirst(queue: OrderedQueue, delivery: Delivery): Promise<void> {
    const claim = { owner: queue.subscriptionId, slow: queue.isSlow };
    if (!this.limiter.tryAcquire(claim) && (await this.limiter.acquire(claim)) !== 'acquired') {
      return;
    }
    const began = performance.now();
    let verdict: Verdict;
    try {
      verdict = hasEnded(delivery)
        ? givenUp('event_not_found')
        : await this.attempts.attempt(delivery, this.store.clock.nowMs());
    } finally {
      this.limiter.release(claim);
      queue.isSlow = performance.now() - began > SLOW_MS;
    }
    if (verdict.outcome === 'RETRYING') {
      await this.planRetry(queue, delivery, verdict.retryInMs);
    }
    queue.shift(this.settlement.settle(delivery, verdict));
    if (verdict.outcome !== 'SUCCESS' || !queue.mayGoOn) {
      await queue.settled();
    }
  }

  /** Where this fails, as in a full Redis, the delivery stays first in its queue. @throws StoreUnavailable */
  private async planRetry({ partition }: OrderedQueue, { ref }: Delivery, retryInMs: number): Promise<void> {
    try {
      await this.store.planRetry(partition.tag, ref, retryInMs);
    } catch (error) {
      this.metrics.retriesNotStored.inc();
      throw error;
    }
    partition.retryIn(retryInMs);
  }
}
