import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import {
  ConcurrencyLimiter,
  orStoreError,
  RedisService,
  retryingKey,
  StoreUnavailable,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { AttemptPostponed, Attempts } from './attempts.js';
import { hasEnded, readDeliveries, refOf, type Verdict } from './delivery.js';
import { type DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { OrderedQueues, PER_SUBSCRIPTION } from './ordered-queues.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';
import { MAINTENANCE_METRICS } from '../../worker/index.js';

/** Concurrent retries of one instance: in total, and per owner of subscriptions. */
const AT_ONCE = 100;
const PER_OWNER = 50;
/** Retries of one subscription that wait in memory. The others are found again at the next pass over the index. */
const WAITING = 100;
/** Index entries read at a time: a fraction of a millisecond of Redis' time. */
const PAGE = 500;
/** Pause between two pages. */
const PAGE_PAUSE_MS = 5;
/** Pause before the next pass over the index if a due retry could not start, or the index could not be read. */
const BLOCKED_MS = 100;
/** How far a retry moves back in the index if it could not be made, up to twice that. */
const POSTPONED_MS = 500;
/** The same after an unexpected error such as a damaged record. */
const AFTER_ERROR_MS = 10_000;
/**
 * How long a retry that fails keeps its place at least, up to twice that. Attempts that fail at once, because a name has no address for
 * example, would otherwise follow each other as fast as Redis answers.
 */
const FAILURE_PAUSE_MS = 100;
/** A retry later than this was left by a process that died, or dates from before the upgrade from a version with a job queue. */
const RECOVER_AFTER_MS = 30_000;

interface DueRetry {
  readonly ref: string;
  readonly dueMs: number;
}

/** Due retries of a subscription that go out in one request, as far as they fit. */
interface DueGroup {
  readonly subscriptionId: string;
  readonly retries: readonly DueRetry[];
}

/**
 * Retries. The holder of a partition's lease attempts the deliveries that are due in its index, by Redis' clock. A delivery stays in the
 * index until its attempt is settled, which reschedules or removes it, so a crash loses none. Passes over the index go page by page, and
 * subscriptions take turns, so a subscription with a long backlog or a hanging endpoint does not delay the others.
 */
@Injectable()
export class Retries {
  private readonly bySubscription = new ConcurrencyLimiter({
    total: AT_ONCE,
    perOwner: PER_SUBSCRIPTION,
    waitingPerOwner: WAITING,
  });
  private readonly byOwner = new ConcurrencyLimiter({ total: AT_ONCE, perOwner: PER_OWNER });

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: Attempts,
    private readonly queues: OrderedQueues,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Reads the next page of due retries of a partition, and starts as many as fit. Does not wait for the attempts.
   * @throws StoreUnavailable, LeaseLost
   */
  async startDue(partition: DispatchPartition): Promise<void> {
    const { tag, token, keys, retriesFrom: first } = partition;
    // Before the script reads the index: attempts that are settled meanwhile may be missing in its reply.
    partition.retriesAt = Number.POSITIVE_INFINITY;
    const reply = await this.redis.scripts
      .call('due_retries', { lease: keys.lease, retrying: retryingKey(tag) }, { token, first, limit: PAGE })
      .catch((error: unknown) => {
        partition.retryIn(BLOCKED_MS);
        throw error;
      });
    if (reply.status === 'NOT_HELD') {
      throw new LeaseLost();
    }
    const { nowMs, nextDueMs = Number.POSITIVE_INFINITY, due } = reply;
    const left = due.filter(({ ref }) => !partition.retries.has(ref));
    left.forEach(({ ref }) => partition.retries.add(ref));
    for (const group of await this.groupsOf(left)) {
      void this.startRetry(partition, group, nowMs);
    }
    const isLast = due.length < PAGE;
    partition.retriesFrom = isLast ? 0 : first + PAGE;
    partition.retryIn(nextDueMs - nowMs);
    if (!isLast || first > 0) {
      // Retries that started have left the index, so entries behind them may have been skipped.
      partition.retryIn(isLast ? BLOCKED_MS : PAGE_PAUSE_MS);
    }
  }

  /** Starts nothing any more. Attempts in flight continue. */
  close(): void {
    this.bySubscription.close();
  }

  /** The due retries by the requests that they make: as many of a subscription as it takes in one. */
  private async groupsOf(due: readonly DueRetry[]): Promise<DueGroup[]> {
    const open = new Map<string, DueRetry[]>();
    const groups: DueGroup[] = [];
    for (const retry of due) {
      const subscriptionId = refOf(retry.ref)?.subscriptionId ?? '';
      // If it cannot be read, its retries will fail one by one, and be postponed.
      const target = await this.subscriptions.find(subscriptionId).catch(() => undefined);
      const group = open.get(subscriptionId);
      if (group !== undefined && group.length < (target?.eventsPerRequest ?? 1)) {
        group.push(retry);
      } else {
        const retries = [retry];
        open.set(subscriptionId, retries);
        groups.push({ subscriptionId, retries });
      }
    }
    return groups;
  }

  /** Makes a retry, or several in one request, when the subscription's turn comes. Never rejects. */
  private async startRetry(partition: DispatchPartition, group: DueGroup, nowMs: number): Promise<void> {
    const claim = { owner: group.subscriptionId };
    const refs = group.retries.map(({ ref }) => ref);
    if ((await this.bySubscription.acquire(claim)) === 'acquired') {
      await partition.track(
        this.inPlace(partition, claim.owner, () => this.retry(partition, group, nowMs)).catch(
          (error: unknown) => this.postpone(partition, refs, error),
        ),
      );
      this.bySubscription.release(claim);
    } else {
      partition.retryIn(BLOCKED_MS);
    }
    refs.forEach((ref) => partition.retries.delete(ref));
  }

  /** Runs a retry if both its subscription's owner and the subscription have a free slot. Otherwise, the next pass finds it again. */
  private async inPlace(
    partition: DispatchPartition,
    subscriptionId: string,
    retry: () => Promise<void>,
  ): Promise<void> {
    const owner = (await this.subscriptions.find(subscriptionId))?.owner ?? '';
    const places = [
      { limiter: this.byOwner, claim: { owner } },
      { limiter: this.queues.limiter, claim: { owner: subscriptionId } },
    ];
    const taken = places.filter(({ limiter, claim }) => limiter.tryAcquire(claim));
    try {
      if (taken.length === places.length) {
        await retry();
      } else {
        partition.retryIn(BLOCKED_MS);
      }
    } finally {
      taken.forEach(({ limiter, claim }) => limiter.release(claim));
    }
  }

  private async retry(partition: DispatchPartition, group: DueGroup, nowMs: number): Promise<void> {
    const { retries } = group;
    if (!partition.active) {
      return;
    }
    const overdue = retries.filter(({ dueMs }) => nowMs - dueMs > RECOVER_AFTER_MS);
    this.metrics.of(WEBHOOK_METRICS).recoveries.inc({ kind: 'retry' }, overdue.length);
    const refs = retries.map(({ ref }) => ref);
    let deliveries: Awaited<ReturnType<typeof readDeliveries>>;
    try {
      deliveries = await readDeliveries(this.redis, partition.code, refs);
    } catch (error) {
      if (isExpected(error) || retries.length === 1) {
        throw error;
      }
      // One damaged record must not hold up the others.
      for (const one of retries) {
        await this.retry(partition, { ...group, retries: [one] }, nowMs).catch((alone: unknown) =>
          this.postpone(partition, [one.ref], alone),
        );
      }
      return;
    }
    const ended = deliveries.filter(hasEnded).map(({ ref }) => ref);
    if (ended.length > 0) {
      const forgotten = await orStoreError(this.redis.client.zrem(retryingKey(partition.tag), ...ended));
      this.metrics.of(MAINTENANCE_METRICS).trimmed.inc(forgotten);
    }
    const early = deliveries.filter(({ status }) => status === 'PENDING').map(({ ref }) => ref);
    if (early.length > 0) {
      await this.postpone(partition, early, new AttemptPostponed('its first attempt is not settled yet'));
    }
    // Otherwise, an attempt has ended after the index was read.
    const next = deliveries.filter(({ status, dueInMs }) => status === 'RETRYING' && dueInMs === 0);
    const first = next.shift();
    if (first === undefined) {
      return;
    }
    const attempted = await this.attempts.attempt(first, partition.nowMs(), (fits) => {
      const end = next.findIndex((delivery) => !fits(delivery));
      return next.splice(0, end < 0 ? next.length : end);
    });
    await Promise.all(
      attempted.map(({ delivery, verdict }) => this.attempts.outcomes.settle(delivery, verdict)),
    );
    attempted.forEach(({ verdict }) => partition.retryIn(verdict.retryInMs ?? Number.POSITIVE_INFINITY));
    if (next.length > 0) {
      partition.retryIn(BLOCKED_MS);
    }
    await this.pauseAfterFailure(attempted[0].verdict);
  }

  private async pauseAfterFailure({ outcome, durationMs }: Verdict): Promise<void> {
    const pauseMs = FAILURE_PAUSE_MS * (1 + Math.random()) - (durationMs ?? Number.POSITIVE_INFINITY);
    if (outcome !== 'SUCCESS' && pauseMs > 0) {
      this.metrics.of(WEBHOOK_METRICS).failurePauses.inc({ for: 'retry' });
      await delay(pauseMs, undefined, { ref: false });
    }
  }

  /** Moves retries that were not made back in the index, so that they do not stand before others. Never rejects. */
  private async postpone(
    partition: DispatchPartition,
    refs: readonly string[],
    error: unknown,
  ): Promise<void> {
    if (!isExpected(error)) {
      this.logger.error(
        { err: error, partition: partition.code, refs },
        'a retry failed; it will be attempted later',
      );
    }
    const pauseMs = isExpected(error) ? POSTPONED_MS * (1 + Math.random()) : AFTER_ERROR_MS;
    const dueMs = Math.ceil(partition.nowMs() + pauseMs);
    const places = refs.flatMap((ref) => [dueMs, ref]);
    // GT, because they may have been rescheduled. If Redis cannot write them, the next pass finds them where they are.
    await this.redis.client.zadd(retryingKey(partition.tag), 'XX', 'GT', ...places).catch(() => undefined);
    partition.retryIn(pauseMs);
  }
}

function isExpected(error: unknown): boolean {
  return error instanceof StoreUnavailable || error instanceof AttemptPostponed;
}
