import { dispatchLeaseKey, eventLogKey, partitionCode, type ScriptAnswer, tagOf } from '../../redis/index.js';
import { EventBacklog } from './event-backlog.js';
import type { OrderedQueue } from './ordered-queue.js';

/** The longest wait for a retry without checking the index, because this process' clock may drift from that of Redis. */
const RECHECK_MS = 10_000;

/** Another instance holds the lease of the partition. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/**
 * A partition whose events this instance dispatches, and its work in progress. The object outlives the lease, because attempts may still
 * be in flight when the lease is lost and taken again. Instants are of the process' monotonic clock.
 */
export class DispatchPartition {
  readonly code: string;
  readonly tag: string;
  /** The keys of the scripts that check the lease. */
  readonly keys: { readonly lease: string; readonly eventLog: string };
  /** False without the lease, or when it is about to be given up. Nothing new starts then. */
  active = false;
  /** Changes with the lease and with each new beginning. What was read from Redis in an earlier term is out of date. */
  term = 0;
  /** Whether ordered queues that a previous holder left are still to be found. */
  unknown = true;
  /** Where to read on: an id among the events read but not acknowledged, or `>` for events never read. */
  after = '0';
  /** Events read but not queued yet. */
  backlog = new EventBacklog();
  /** How many deliveries are queued before the next page is read: events may come as fast as pages are read. */
  toQueue = 0;
  /** Whether the partition has ever had a subscription. If not, its events are skipped. */
  watched = false;
  /** The last event read, by this or a previous holder. */
  lastRead = '0-0';
  /** Ordered queues that are being worked on, by name. */
  readonly queues = new Map<string, OrderedQueue>();
  /** The refs of retries that wait for a place or are in flight. */
  readonly retries = new Set<string>();
  /** When to check the index of retries again. */
  retriesAt = Number.POSITIVE_INFINITY;
  /** The rank at which the next check of the retries starts. */
  retriesFrom = 0;
  lag = 0;
  retrying = 0;
  toRecover = 0;
  private readonly inFlight = new Set<Promise<void>>();
  /** When the oldest event not yet queued was written, as of the last check. */
  private oldestAt = Number.POSITIVE_INFINITY;
  private behindSince = Number.POSITIVE_INFINITY;
  /** How far Redis' clock is ahead of this process' clock. */
  private redisAheadMs = 0;

  /** @param token of this instance's leases */
  constructor(
    readonly number: number,
    readonly token: string,
  ) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
    this.keys = { lease: dispatchLeaseKey(this.tag), eventLog: eventLogKey(this.tag) };
  }

  /** Redis' time, estimated. Good for ages of seconds; ask Redis where it must be exact. */
  nowMs(): number {
    return performance.now() + this.redisAheadMs;
  }

  /** Forgets everything that is different once another instance has held the lease. */
  reset(): void {
    this.behindSince = Number.POSITIVE_INFINITY;
    this.retriesAt = Number.POSITIVE_INFINITY;
    this.retriesFrom = 0;
    this.beginAnew();
  }

  /** @param snapshot the state of the partition as lua/webhooks/dispatch_page.lua returns it */
  see(snapshot: ScriptAnswer<'dispatch_page', 'HELD'>): void {
    const {
      nowMs,
      oldestMs,
      lag = 0,
      pending = 0,
      lastRead = this.lastRead,
      retrying = 0,
      toRecover = 0,
    } = snapshot;
    const now = performance.now();
    Object.assign(this, { lag, lastRead, retrying, toRecover });
    this.unknown ||= (snapshot.queues ?? 0) > 0;
    this.redisAheadMs = nowMs - now;
    this.oldestAt = (oldestMs ?? Number.POSITIVE_INFINITY) - this.redisAheadMs;
    this.behindSince = oldestMs === undefined ? Number.POSITIVE_INFINITY : Math.min(this.behindSince, now);
    const hasQueuedAll = this.after === '>' && this.backlog.isEmpty;
    if (hasQueuedAll && pending > 0) {
      // An event that was queued waits again: a failover has lost its deliveries and its acknowledgement.
      this.beginAnew();
    }
    if (retrying > 0) {
      this.retryIn(this.retriesAt === Number.POSITIVE_INFINITY ? 0 : RECHECK_MS);
    }
  }

  /** Reads everything again, because another instance may have held the partition meanwhile, or a batch may be half done. */
  beginAnew(): void {
    this.term += 1;
    this.unknown = true;
    this.after = '0';
    this.backlog = new EventBacklog();
    this.toQueue = 0;
  }

  /** Whether everything known at the last check is queued, so only later events remain to be read. */
  get isCaughtUp(): boolean {
    return !this.unknown && this.after === '>' && this.backlog.isEmpty;
  }

  retryIn(delayMs: number): void {
    this.retriesAt = Math.min(this.retriesAt, performance.now() + delayMs);
  }

  /** @param work that must end before the partition is given up, and for which a shutdown waits; it never rejects */
  async track(work: Promise<void>): Promise<void> {
    this.inFlight.add(work);
    await work;
    this.inFlight.delete(work);
  }

  get isBusy(): boolean {
    return this.inFlight.size > 0;
  }

  /** Resolves when nothing is in flight. */
  async idle(): Promise<void> {
    await Promise.all(this.inFlight);
  }

  /** Deliveries that wait for their first attempt, as far as this process knows. */
  get waiting(): number {
    return [...this.queues.values()].reduce((sum, { left }) => sum + left, 0);
  }

  /** Age of the oldest event that waits to be read or for its first attempt. */
  oldestForMs(now: number): number {
    const queuedMs = Math.min(...[...this.queues.values()].map(({ oldestMs }) => oldestMs));
    return Math.max(0, now - Math.min(this.oldestAt, queuedMs - this.redisAheadMs));
  }

  /**
   * How long an event has waited for this dispatcher. Does not count the time before this instance took the partition, nor events that
   * wait behind a long backlog of their own tenant.
   */
  lateForMs(now: number): number {
    return this.backlog.hasExcess
      ? Math.max(0, now + this.redisAheadMs - (this.backlog.oldestMs ?? Number.POSITIVE_INFINITY))
      : Math.max(0, now - Math.max(this.behindSince, this.oldestAt));
  }
}
