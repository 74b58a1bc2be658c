import { Inject, Injectable } from '@nestjs/common';
import {
  ConcurrencyLimiter,
  dispatchLeaseKey,
  orStoreError,
  RedisService,
  retryingKey,
  StoreUnavailable,
} from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { AttemptPostponed, Attempts } from './attempts.js';
import { type Delivery, hasEnded, readDeliveries, refOf } from './delivery.js';
import { type DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueues } from './ordered-queues.js';

/** Retries that one instance makes at the same time: in all, to one subscription, and to the subscriptions of one owner. */
const AT_ONCE = 100;
const PER_SUBSCRIPTION = 32;
const PER_OWNER = 50;
/** Retries to one subscription that wait for their turn. The others are found again when the index is next looked through. */
const WAITING = 100;
/** Entries of the index that one look reads: a fraction of a millisecond of Redis' time. */
const PAGE = 500;
/** Between two pages. */
const PAGE_PAUSE_MS = 5;
/** How soon the index is looked through again for what is due in it and could not be begun. */
const BLOCKED_MS = 100;
/** How long a delivery is left alone whose first attempt is not settled yet, or which could not be begun. */
const SOON_MS = 500;
/** The same after an error that nobody expected, such as a damaged record. */
const AFTER_ERROR_MS = 10_000;
/** A retry that is later than this was left behind by a process that died, or came before the upgrade from a version with a job queue. */
const LEFT_OVER_AFTER_MS = 30_000;

/**
 * Retries: what is due in the partition's index, by Redis' clock, is attempted by whoever holds the lease. A delivery stays in the index
 * until its attempt is settled, which moves it on or removes it, so a crash loses none. The index is looked through in pages that go
 * round, and subscriptions take turns, so that one with a long backlog, or one that hangs, stands in nobody's way.
 */
@Injectable()
export class Retries {
  private readonly bySubscription = new ConcurrencyLimiter({
    total: AT_ONCE,
    perOwner: PER_SUBSCRIPTION,
    waitingPerOwner: WAITING,
  });
  private readonly byOwner = new ConcurrencyLimiter({ total: AT_ONCE, perOwner: PER_OWNER });
  /** Deliveries that wait for their turn, are under way, or are left alone for a while. */
  private readonly setAside = new Set<string>();
  private readonly underWay = new Map<Promise<number>, DispatchPartition>();

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly queues: OrderedQueues,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: DispatchMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Looks at the next page of what is due in a partition, and begins what there is room for. The attempts go on beside it.
   * @param token of the lease
   * @throws StoreUnavailable, LeaseLost
   */
  async startDue(partition: DispatchPartition, token: string): Promise<void> {
    const { tag, retriesFrom: first } = partition;
    const reply = await this.redis.scripts.call(
      'due_retries',
      { lease: dispatchLeaseKey(tag), retrying: retryingKey(tag) },
      { token, first, limit: PAGE },
    );
    if (reply.status === 'NOT_HELD') {
      throw new LeaseLost();
    }
    const { nowMs, nextDueMs = Number.POSITIVE_INFINITY, due } = reply;
    partition.retriesAt = Number.POSITIVE_INFINITY;
    for (const { ref, dueMs } of due) {
      if (!this.setAside.has(tag + ref)) {
        void this.take(partition, ref, nowMs - dueMs);
      }
    }
    const isLast = due.length < PAGE;
    partition.retriesFrom = isLast ? 0 : first + PAGE;
    partition.retryIn(nextDueMs - nowMs);
    if (!isLast || first > 0) {
      // What was begun is out of the index by now, so that what stood behind it may have been passed over.
      partition.retryIn(isLast ? BLOCKED_MS : PAGE_PAUSE_MS);
    }
  }

  /** Whether retries of a partition are under way. */
  isBusy({ number }: DispatchPartition): boolean {
    return [...this.underWay.values()].some((partition) => partition.number === number);
  }

  /** Begins nothing any more; what is under way goes on. */
  close(): void {
    this.bySubscription.close();
  }

  /** Resolves when no retry is under way any more. */
  async idle(): Promise<void> {
    await Promise.all(this.underWay.keys());
  }

  /** Begins a retry when it is its subscription's turn. Never rejects. */
  private async take(partition: DispatchPartition, ref: string, dueForMs: number): Promise<void> {
    const name = partition.tag + ref;
    const claim = { owner: refOf(ref)?.subscriptionId ?? '' };
    this.setAside.add(name);
    if ((await this.bySubscription.acquire(claim)) !== 'acquired') {
      this.setAside.delete(name);
      partition.retryIn(BLOCKED_MS);
      return;
    }
    const retry = this.inPlace(claim.owner, () => this.retry(partition, ref, dueForMs)).catch(
      (error: unknown) => {
        if (error instanceof StoreUnavailable || error instanceof AttemptPostponed) {
          return SOON_MS * (1 + Math.random());
        }
        this.logger.error({ err: error, partition: partition.code, ref }, 'a retry failed; it is made later');
        return AFTER_ERROR_MS;
      },
    );
    this.underWay.set(retry, partition);
    const pauseMs = await retry;
    this.underWay.delete(retry);
    this.bySubscription.release(claim);
    if (pauseMs === 0) {
      this.setAside.delete(name);
      return;
    }
    setTimeout(() => {
      this.setAside.delete(name);
      partition.retryIn(0);
    }, pauseMs).unref();
  }

  /** Runs a retry if its subscription's owner, and the subscription among all attempts, have a place for it. */
  private async inPlace(subscriptionId: string, retry: () => Promise<number>): Promise<number> {
    const owner = (await this.subscriptions.find(subscriptionId))?.owner ?? '';
    const places = [
      { limiter: this.byOwner, claim: { owner } },
      { limiter: this.queues.limiter, claim: { owner: subscriptionId } },
    ];
    const taken = places.filter(({ limiter, claim }) => limiter.tryAcquire(claim));
    try {
      return taken.length < places.length ? BLOCKED_MS : await retry();
    } finally {
      taken.forEach(({ limiter, claim }) => limiter.release(claim));
    }
  }

  /** @returns how long the delivery is left alone */
  private async retry(partition: DispatchPartition, ref: string, dueForMs: number): Promise<number> {
    if (!partition.active) {
      return 0;
    }
    if (dueForMs > LEFT_OVER_AFTER_MS) {
      this.metrics.counters.recoveries.inc({ kind: 'retry' });
    }
    const [delivery] = (await readDeliveries(this.redis, partition.code, [ref])) as [Delivery];
    if (hasEnded(delivery)) {
      const forgotten = await orStoreError(this.redis.client.zrem(retryingKey(partition.tag), ref));
      this.metrics.maintenance.trimmedEntries(forgotten);
      return 0;
    }
    if (delivery.status === 'PENDING') {
      return SOON_MS;
    }
    // An attempt may have ended between the look at the index and the next one.
    if (delivery.dueInMs === 0) {
      const verdict = await this.attempts.attempt(delivery, partition.nowMs());
      await this.attempts.settle(delivery, verdict);
      partition.retryIn(verdict.retryInMs ?? Number.POSITIVE_INFINITY);
    }
    return 0;
  }
}
