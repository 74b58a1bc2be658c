import { Inject, Injectable } from '@nestjs/common';
import { ConcurrencyLimiter } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { retryingKey, StoreUnavailable } from '../../redis/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { AttemptPostponed, Attempts } from './attempts.js';
import { hasEnded, isRef, partsOfRef, type Delivery } from './delivery.js';
import { DeliveryStore, type DueRetry } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueues } from './ordered-queues.js';
import { Settlement } from './settlement.js';

/** Retries that one instance makes at the same time: in all, and to the subscriptions of one owner. */
const AT_ONCE = 100;
const PER_OWNER = 50;
/** Entries of the index that one look reads: a fraction of a millisecond of Redis' time. */
const PAGE = 500;
/** How soon the index is looked through again while there is something due in it that cannot be started. */
const BLOCKED_MS = 100;
/** Between two pages. */
const PAGE_PAUSE_MS = 5;
/** How long a delivery is left alone whose first attempt is not settled yet, or which could not be begun. */
const SOON_MS = 500;
/** The same after an error that nobody expected, such as a damaged record. */
const AFTER_ERROR_MS = 10_000;
/** A retry that is later than this was left behind by a process that died, or came before the upgrade from a version with a job queue. */
const LEFT_OVER_AFTER_MS = 30_000;

/** Deliveries to one subscription that are due and not begun, as the last look at their partition found them. */
interface DueDeliveries {
  readonly partition: DispatchPartition;
  readonly subscriptionId: string;
  readonly owner: string;
  readonly deliveries: DueRetry[];
}

/**
 * Retries: what is due in the partition's index, by Redis' clock, is attempted by whoever holds the lease. A delivery stays in the index
 * until its attempt is settled, which moves it on or removes it, so a crash loses none. The index is looked through in pages that go
 * round, and subscriptions take turns, so that one with a long backlog, or one that hangs, stands in nobody's way.
 */
@Injectable()
export class Retries {
  private readonly limiter = new ConcurrencyLimiter({ total: AT_ONCE, perOwner: PER_OWNER });
  /** The subscription whose turn is next stands first. */
  private readonly due = new Map<string, DueDeliveries>();
  /** Deliveries under way, and those that are left alone for a while. */
  private readonly setAside = new Set<string>();
  private readonly underWay = new Map<Promise<void>, DispatchPartition>();

  constructor(
    private readonly store: DeliveryStore,
    private readonly attempts: Attempts,
    private readonly settlement: Settlement,
    private readonly queues: OrderedQueues,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: DispatchMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Looks at the next page of what is due in a partition, and begins what there is room for. The attempts go on beside it.
   * @param token of the lease
   * @returns false when the lease is another's @throws StoreUnavailable
   */
  async startDue(partition: DispatchPartition, token: string): Promise<boolean> {
    const found = await this.store.dueRetries(partition.tag, token, partition.retriesFrom, PAGE);
    if (found === undefined) {
      return false;
    }
    for (const [key, one] of this.due) {
      if (one.partition.number === partition.number) {
        this.due.delete(key);
      }
    }
    await this.collect(partition, found.due);
    this.begin();
    const isLast = found.due.length < PAGE;
    const isBlocked = [...this.due.values()].some((one) => one.partition === partition);
    partition.retriesFrom = isLast ? 0 : partition.retriesFrom + PAGE;
    const pauseMs = isLast ? (isBlocked ? BLOCKED_MS : found.nextInMs) : PAGE_PAUSE_MS;
    partition.retriesAt = performance.now() + Math.min(pauseMs, found.nextInMs);
    return true;
  }

  /** Whether retries of a partition are under way. */
  isBusy({ number }: DispatchPartition): boolean {
    return [...this.underWay.values()].some((partition) => partition.number === number);
  }

  /** Begins nothing any more; what is under way goes on. */
  close(): void {
    this.limiter.close();
  }

  /** Resolves when no retry is under way any more. */
  async idle(): Promise<void> {
    await Promise.all(this.underWay.keys());
  }

  private async collect(partition: DispatchPartition, due: readonly DueRetry[]): Promise<void> {
    for (const retry of due) {
      const { ref } = retry;
      if (this.setAside.has(partition.tag + ref)) {
        continue;
      }
      if (!isRef(ref)) {
        this.metrics.trimmedEntries(await this.store.forget(retryingKey(partition.tag), ref));
        continue;
      }
      const { subscriptionId } = partsOfRef(ref);
      const key = partition.tag + subscriptionId;
      let one = this.due.get(key);
      if (one === undefined) {
        one = { partition, subscriptionId, owner: await this.ownerOf(subscriptionId), deliveries: [] };
        this.due.set(key, one);
      }
      one.deliveries.push(retry);
    }
  }

  /** Whose place a retry takes. One whose subscription is gone or cannot be read takes nobody's. @throws StoreUnavailable */
  private async ownerOf(subscriptionId: string): Promise<string> {
    try {
      return (await this.subscriptions.find(subscriptionId))?.owner ?? '';
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      return '';
    }
  }

  /** Begins what there is room for: one of each subscription, then another one of each, until nothing more can begin. */
  private begin(): void {
    for (let hasBegun = true; hasBegun && this.limiter.inUse < AT_ONCE;) {
      hasBegun = false;
      for (const [key, one] of [...this.due]) {
        if (!one.partition.active || one.deliveries.length === 0) {
          this.due.delete(key);
        } else if (this.takePlaces(one)) {
          this.due.delete(key);
          this.due.set(key, one);
          this.follow(one, one.deliveries.shift() as DueRetry);
          hasBegun = true;
        }
      }
    }
  }

  private takePlaces({ owner, subscriptionId }: DueDeliveries): boolean {
    if (!this.limiter.tryAcquire({ owner })) {
      return false;
    }
    if (this.queues.limiter.tryAcquire({ owner: subscriptionId })) {
      return true;
    }
    this.limiter.release({ owner });
    return false;
  }

  private follow({ partition, owner, subscriptionId }: DueDeliveries, { ref, dueForMs }: DueRetry): void {
    if (dueForMs > LEFT_OVER_AFTER_MS) {
      this.metrics.recoveries.inc({ kind: 'retry' });
    }
    const name = partition.tag + ref;
    this.setAside.add(name);
    const retry = this.retry(partition, ref).then((pauseMs) => {
      this.queues.limiter.release({ owner: subscriptionId });
      this.limiter.release({ owner });
      this.underWay.delete(retry);
      if (pauseMs === 0) {
        this.setAside.delete(name);
      } else {
        setTimeout(() => {
          this.setAside.delete(name);
          partition.retryIn(0);
        }, pauseMs).unref();
      }
      this.begin();
    });
    this.underWay.set(retry, partition);
  }

  /** Never rejects. @returns how long the delivery is left alone */
  private async retry(partition: DispatchPartition, ref: string): Promise<number> {
    try {
      const [delivery] = (await this.store.read(partition, [ref])) as [Delivery];
      if (hasEnded(delivery)) {
        this.metrics.trimmedEntries(await this.store.forget(retryingKey(partition.tag), ref));
        return 0;
      }
      if (delivery.status === 'PENDING') {
        return SOON_MS;
      }
      // An attempt may have ended between the look at the index and the next one.
      if (delivery.dueInMs > 0) {
        return 0;
      }
      const verdict = await this.attempts.attempt(delivery, this.store.clock.nowMs());
      await this.settlement.settle(delivery, verdict);
      if (verdict.outcome === 'RETRYING') {
        partition.retryIn(verdict.retryInMs);
      }
      return 0;
    } catch (error) {
      if (error instanceof StoreUnavailable || error instanceof AttemptPostponed) {
        return SOON_MS * (1 + Math.random());
      }
      this.logger.error({ err: error, partition: partition.code, ref }, 'a retry failed; it is made later');
      return AFTER_ERROR_MS;
    }
  }
}
