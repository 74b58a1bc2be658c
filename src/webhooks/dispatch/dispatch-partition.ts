import { partitionCode, type ScriptAnswer, tagOf } from '../../redis/index.js';
import { EventBacklog } from './event-backlog.js';

/** What a look at a partition found, as lua/webhooks/dispatch_page.lua describes it. */
export type DispatchLook = ScriptAnswer<'dispatch_page', 'HELD'>;

/** The longest that a retry is waited for without a look at the index: this process' clock may differ from that of Redis. */
const LOOK_AGAIN_MS = 10_000;

/** Another instance has the lease of a partition. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** What an instance knows of a partition whose events it dispatches. Instants are of its own monotonic clock. */
export class DispatchPartition {
  readonly code: string;
  readonly tag: string;
  /** False when the lease is lost, given up or to be given up: nothing new is begun then. */
  active = true;
  /** Whether the ordered queues that others left behind are still to be found. */
  unknown = true;
  /** What is read next: `0` and later ids for what was read and not acknowledged, `>` for what was never read. */
  after = '0';
  /** What was read and is not queued yet. */
  backlog = new EventBacklog();
  /** Whether a subscription was made in this partition at some time, so that its events are read. */
  watched = false;
  /** The last event that was read, here or by a holder before. */
  lastRead = '0-0';
  /** When the retries are to be looked through again. */
  retriesAt = Number.POSITIVE_INFINITY;
  /** The rank at which the next look at them begins. */
  retriesFrom = 0;
  /** How many failures at the head of the index of outcomes cannot be counted. */
  uncountable = 0;
  lag = 0;
  retrying = 0;
  leftOver = 0;
  /** When its oldest event was written that is not queued for its subscribers, by the last look. */
  private oldestAt = Number.POSITIVE_INFINITY;
  private behindSince = Number.POSITIVE_INFINITY;
  /** What Redis' clock is ahead of this process' own by. */
  private redisAheadMs = 0;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
  }

  /** Redis' time, good for ages of seconds and more: what must be exact asks Redis. */
  nowMs(): number {
    return performance.now() + this.redisAheadMs;
  }

  see({
    nowMs,
    oldestMs,
    lag = 0,
    lastRead = this.lastRead,
    retrying = 0,
    leftOver = 0,
  }: DispatchLook): void {
    const now = performance.now();
    Object.assign(this, { lag, lastRead, retrying, leftOver });
    this.redisAheadMs = nowMs - now;
    this.oldestAt = (oldestMs ?? Number.POSITIVE_INFINITY) - this.redisAheadMs;
    this.behindSince = oldestMs === undefined ? Number.POSITIVE_INFINITY : Math.min(this.behindSince, now);
    if (retrying > 0) {
      this.retryIn(this.retriesAt === Number.POSITIVE_INFINITY ? 0 : LOOK_AGAIN_MS);
    }
  }

  /** Whether all that was there at the last look is queued, so that only later events are to be read. */
  get isCaughtUp(): boolean {
    return !this.unknown && this.after === '>' && this.backlog.isEmpty;
  }

  /** Somebody may have had the partition meanwhile, or a batch of events may be half done. */
  beginAnew(): void {
    this.unknown = true;
    this.after = '0';
    this.backlog = new EventBacklog();
  }

  retryIn(delayMs: number): void {
    this.retriesAt = Math.min(this.retriesAt, performance.now() + delayMs);
  }

  /** Age of its oldest event that is not queued for its subscribers, by the last look. */
  oldestForMs(now: number): number {
    return Math.max(0, now - this.oldestAt);
  }

  /**
   * How long an event has waited for this dispatcher: what waited before it came is not its lateness, nor what waits behind more events
   * of the same tenant than are kept at hand.
   */
  lateForMs(now: number): number {
    return this.backlog.hasExcess
      ? Math.max(0, now + this.redisAheadMs - (this.backlog.oldestMs ?? Number.POSITIVE_INFINITY))
      : Math.max(0, now - Math.max(this.behindSince, this.oldestAt));
  }
}
