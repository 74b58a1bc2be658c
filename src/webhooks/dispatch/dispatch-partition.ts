import { partitionCode, type ScriptAnswer, tagOf } from '../../redis/index.js';
import { EventBacklog } from './event-backlog.js';

/** The state of a partition as lua/webhooks/dispatch_page.lua returns it. */
export type DispatchSnapshot = ScriptAnswer<'dispatch_page', 'HELD'>;

/** The longest wait for a retry without checking the index, because this process' clock may drift from that of Redis. */
const RECHECK_MS = 10_000;

/** Another instance holds the lease of the partition. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** A partition whose events this instance dispatches. Instants are of the process' monotonic clock. */
export class DispatchPartition {
  readonly code: string;
  readonly tag: string;
  /** False once the lease is lost or about to be given up. Nothing new starts then. */
  active = true;
  /** Whether ordered queues that a previous holder left are still to be found. */
  unknown = true;
  /** Where to read on: an id among the events read but not acknowledged, or `>` for events never read. */
  after = '0';
  /** Events read but not queued yet. */
  backlog = new EventBacklog();
  /** Whether the partition has ever had a subscription. If not, its events are skipped. */
  watched = false;
  /** The last event read, by this or a previous holder. */
  lastRead = '0-0';
  /** When to check the retries again. */
  retriesAt = Number.POSITIVE_INFINITY;
  /** The rank at which the next check of the retries starts. */
  retriesFrom = 0;
  /** How many failures at the head of the outcomes index cannot be counted. */
  uncountable = 0;
  lag = 0;
  retrying = 0;
  toRecover = 0;
  /** When the oldest event not yet queued was written, as of the last check. */
  private oldestAt = Number.POSITIVE_INFINITY;
  private behindSince = Number.POSITIVE_INFINITY;
  /** How far Redis' clock is ahead of this process' clock. */
  private redisAheadMs = 0;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
  }

  /** Redis' time, estimated. Good for ages of seconds; ask Redis where it must be exact. */
  nowMs(): number {
    return performance.now() + this.redisAheadMs;
  }

  see({
    nowMs,
    oldestMs,
    lag = 0,
    lastRead = this.lastRead,
    retrying = 0,
    toRecover = 0,
  }: DispatchSnapshot): void {
    const now = performance.now();
    Object.assign(this, { lag, lastRead, retrying, toRecover });
    this.redisAheadMs = nowMs - now;
    this.oldestAt = (oldestMs ?? Number.POSITIVE_INFINITY) - this.redisAheadMs;
    this.behindSince = oldestMs === undefined ? Number.POSITIVE_INFINITY : Math.min(this.behindSince, now);
    if (retrying > 0) {
      this.retryIn(this.retriesAt === Number.POSITIVE_INFINITY ? 0 : RECHECK_MS);
    }
  }

  /** Whether everything known at the last check is queued, so only later events remain to be read. */
  get isCaughtUp(): boolean {
    return !this.unknown && this.after === '>' && this.backlog.isEmpty;
  }

  /** Starts over, because another instance may have held the partition meanwhile, or a batch may be half done. */
  beginAnew(): void {
    this.unknown = true;
    this.after = '0';
    this.backlog = new EventBacklog();
  }

  retryIn(delayMs: number): void {
    this.retriesAt = Math.min(this.retriesAt, performance.now() + delayMs);
  }

  /** Age of the oldest event not yet queued, as of the last check. */
  oldestForMs(now: number): number {
    return Math.max(0, now - this.oldestAt);
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
