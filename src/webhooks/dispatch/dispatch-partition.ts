import { partitionCode, tagOf } from '../../redis/index.js';
import type { DispatchLook } from './delivery-store.js';
import { EventBacklog } from './event-backlog.js';

/** The longest that a retry is waited for without a look at the index: this process' clock may differ from that of Redis. */
const LOOK_AGAIN_MS = 10_000;

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
  lag = 0;
  retrying = 0;
  leftOver = 0;
  private oldestAt: number | undefined;
  /** What Redis' clock is ahead of this process' own by. */
  private redisAheadMs = 0;
  private behindSince: number | undefined;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
  }

  /** @param seenAt when the reply came */
  see(look: DispatchLook, seenAt: number): void {
    const { nowMs, oldestMs } = look;
    this.lag = look.lag ?? 0;
    this.lastRead = look.lastRead ?? this.lastRead;
    this.retrying = look.retrying ?? 0;
    this.leftOver = look.leftOver ?? 0;
    this.oldestAt = oldestMs === undefined ? undefined : seenAt - (nowMs - oldestMs);
    this.redisAheadMs = nowMs - seenAt;
    this.behindSince = oldestMs === undefined ? undefined : (this.behindSince ?? seenAt);
    if (this.retrying > 0) {
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
    return this.oldestAt === undefined ? 0 : Math.max(0, now - this.oldestAt);
  }

  /**
   * How long an event has waited for this dispatcher: what waited before it came is not its lateness, nor what waits behind more events
   * of the same tenant than are kept at hand.
   */
  lateForMs(now: number): number {
    if (this.backlog.hasExcess) {
      return Math.max(0, now + this.redisAheadMs - (this.backlog.oldestMs ?? Number.POSITIVE_INFINITY));
    }
    return this.behindSince === undefined ? 0 : Math.min(now - this.behindSince, this.oldestForMs(now));
  }
}
