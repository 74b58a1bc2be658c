import { setTimeout as delay } from 'node:timers/promises';
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
import { type Delivery, hasEnded, readDeliveries, refOf, type Verdict } from './delivery.js';
import { type DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueues } from './ordered-queues.js';

/** Concurrent retries of one instance: in total, per subscription, and per owner of subscriptions. */
const AT_ONCE = 100;
const PER_SUBSCRIPTION = 32;
const PER_OWNER = 50;
/** Retries of one subscription that wait in memory. The others are found again at the next pass over the index. */
const WAITING = 100;
/** Index entries read at a time: a fraction of a millisecond of Redis' time. */
const PAGE = 500;
/** Pause between two pages. */
const PAGE_PAUSE_MS = 5;
/** Pause before the next pass over the index if a due retry could not start. */
const BLOCKED_MS = 100;
/** How long to skip a delivery whose first attempt is not settled yet, or that could not start. */
const SOON_MS = 500;
/** The same after an unexpected error, such as a damaged record. */
const AFTER_ERROR_MS = 10_000;
/**
 * How long a retry that fails keeps its place at least, up to twice that. Attempts that fail at once, because a name has no address for
 * example, would otherwise follow each other as fast as Redis answers.
 */
const FAILURE_PAUSE_MS = 100;
/** A retry later than this was left by a process that died, or dates from before the upgrade from a version with a job queue. */
const RECOVER_AFTER_MS = 30_000;

/**
 * Retries. The holder of a partition's lease attempts the deliveries that are due in its index, by Redis' clock. A delivery stays in the
 * index until its attempt is settled, which reschedules or removes it, so a crash loses none. Passes over the index go page by page, and
 * subscriptions startRetry turns, so a subscription with a long backlog or a hanging endpoint does not delay the others.
 */
@Injectable()
export class Retries {
  private readonly bySubscription = new ConcurrencyLimiter({
    total: AT_ONCE,
    perOwner: PER_SUBSCRIPTION,
    waitingPerOwner: WAITING,
  });
  private readonly byOwner = new ConcurrencyLimiter({ total: AT_ONCE, perOwner: PER_OWNER });
  /**
   * Deliveries that wait for their turn, are being attempted, or are skipped for a while, by partition and ref. Those being attempted have a
   * promise.
   */
  private readonly setAside = new Map<string, Promise<number> | undefined>();

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly queues: OrderedQueues,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: DispatchMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Reads the next page of due retries of a partition, and starts as many as fit. Does not wait for the attempts.
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
        void this.startRetry(partition, ref, nowMs - dueMs);
      }
    }
    const isLast = due.length < PAGE;
    partition.retriesFrom = isLast ? 0 : first + PAGE;
    partition.retryIn(nextDueMs - nowMs);
    if (!isLast || first > 0) {
      // Retries that started have left the index, so entries behind them may have been skipped.
      partition.retryIn(isLast ? BLOCKED_MS : PAGE_PAUSE_MS);
    }
  }

  /** Whether retries of a partition are in flight. */
  isBusy({ tag }: DispatchPartition): boolean {
    return [...this.setAside].some(([name, attempt]) => attempt !== undefined && name.startsWith(tag));
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.bySubscription.close();
  }

  /** Resolves when no retry is in flight. */
  async idle(): Promise<void> {
    await Promise.all([...this.setAside.values()].flatMap((attempt) => attempt ?? []));
  }

  /** Starts a retry when its subscription's turn comes. Never rejects. */
  private async startRetry(partition: DispatchPartition, ref: string, dueForMs: number): Promise<void> {
    const name = partition.tag + ref;
    const claim = { owner: refOf(ref)?.subscriptionId ?? '' };
    this.setAside.set(name, undefined);
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
        this.logger.error(
          { err: error, partition: partition.code, ref },
          'a retry failed; it will be attempted later',
        );
        return AFTER_ERROR_MS;
      },
    );
    this.setAside.set(name, retry);
    const pauseMs = await retry;
    this.setAside.set(name, undefined);
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

  /** Runs a retry if both its subscription's owner and the subscription have a free slot. */
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

  private async pauseAfterFailure({ outcome, durationMs }: Verdict): Promise<void> {
    const pauseMs = FAILURE_PAUSE_MS * (1 + Math.random()) - (durationMs ?? Number.POSITIVE_INFINITY);
    if (outcome !== 'SUCCESS' && pauseMs > 0) {
      this.metrics.counters.failurePauses.inc({ for: 'retry' });
      await delay(pauseMs, undefined, { ref: false });
    }
  }

  /** @returns how long to skip the delivery */
  private async retry(partition: DispatchPartition, ref: string, dueForMs: number): Promise<number> {
    if (!partition.active) {
      return 0;
    }
    if (dueForMs > RECOVER_AFTER_MS) {
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
    // The attempt may have ended after the index was read.
    if (delivery.dueInMs === 0) {
      const verdict = await this.attempts.attempt(delivery, partition.nowMs());
      await this.attempts.settle(delivery, verdict);
      partition.retryIn(verdict.retryInMs ?? Number.POSITIVE_INFINITY);
      await this.pauseAfterFailure(verdict);
    }
    return 0;
  }
}
