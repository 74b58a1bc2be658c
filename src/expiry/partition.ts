import { partitionCode, type Reply, tagOf } from '../redis/index.js';

/** What one look at a partition's TTL index found, as lua/sweep_page.lua tells it. */
export interface Look {
  /** Redis' time. */
  readonly nowMs: number;
  readonly lease: 'renewed' | 'taken' | 'none';
  readonly due: number;
  readonly oldestDueMs: number | undefined;
  readonly nextDeadlineMs: number | undefined;
  readonly quarantined: number;
  /** Holds under MANUAL_CLEANUP whose grace is over. They are not due. */
  readonly awaitingCleanup: number;
  readonly oldestAwaitingMs: number | undefined;
  readonly ids: readonly string[];
}

/** @returns undefined when the reply says that the lease is not ours. */
export function lookOf([
  word,
  nowMs,
  lease,
  due,
  oldest,
  next,
  quarantined,
  awaiting,
  oldestAwaiting,
  ...ids
]: Reply): Look | undefined {
  if (word !== 'HELD') {
    return undefined;
  }
  return {
    nowMs: Number(nowMs),
    lease: lease as Look['lease'],
    due: Number(due),
    oldestDueMs: scoreOf(oldest),
    nextDeadlineMs: scoreOf(next),
    quarantined: Number(quarantined),
    awaitingCleanup: Number(awaiting),
    oldestAwaitingMs: scoreOf(oldestAwaiting),
    ids,
  };
}

/** A score that is no instant, such as an infinite one, is told as none. */
export function scoreOf(text: string | undefined): number | undefined {
  const score = text === undefined || text === '' ? Number.NaN : Number(text);
  return Number.isFinite(score) ? score : undefined;
}

/**
 * What an instance knows of a partition that it sweeps. Instants are of its own monotonic clock, and they only decide
 * when to look again: what is due, Redis alone says.
 */
export class Partition {
  readonly code: string;
  readonly tag: string;
  /** From when on something is known to be due; infinite when the index is empty. */
  dueFrom = Number.POSITIVE_INFINITY;
  /** When it was last given its turn: the least recent one comes first. */
  servedAt = 0;
  due = 0;
  quarantined = 0;
  awaitingCleanup = 0;
  /** Since when it has had due holds at every look. */
  behindSince: number | undefined;
  private oldestDueAt: number | undefined;
  private oldestAwaitingAt: number | undefined;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
  }

  /** @param seenAt when the reply came, so that a deadline is never taken for due too early. */
  see(look: Look, seenAt: number): void {
    this.due = look.due;
    this.quarantined = look.quarantined;
    this.awaitingCleanup = look.awaitingCleanup;
    const instantOf = (ms: number | undefined): number | undefined =>
      ms === undefined ? undefined : seenAt - (look.nowMs - ms);
    this.oldestDueAt = instantOf(look.oldestDueMs);
    this.oldestAwaitingAt = instantOf(look.oldestAwaitingMs);
    this.behindSince = look.due === 0 ? undefined : (this.behindSince ?? seenAt);
    if (look.due > 0) {
      this.dueFrom = seenAt;
    } else {
      // A hold is due in the millisecond after its deadline.
      this.dueFrom =
        look.nextDeadlineMs === undefined
          ? Number.POSITIVE_INFINITY
          : seenAt + (look.nextDeadlineMs - look.nowMs) + 1;
    }
  }

  /** Everything that was due at the last look has been judged. */
  caughtUp(look: Look, seenAt: number): void {
    this.see({ ...look, due: 0, oldestDueMs: undefined }, seenAt);
  }

  /** How long its oldest hold that awaits cleanup has waited, by the last look. */
  oldestAwaitingForMs(now: number): number {
    return this.oldestAwaitingAt === undefined ? 0 : Math.max(0, now - this.oldestAwaitingAt);
  }

  /** How long its oldest due hold has waited, by the last look. */
  oldestDueForMs(now: number): number {
    return this.oldestDueAt === undefined ? 0 : Math.max(0, now - this.oldestDueAt);
  }

  /**
   * How long a due hold has waited for this sweeper: what was overdue before it came, for nobody swept or Redis was away,
   * is not its lateness.
   */
  lateForMs(now: number): number {
    return this.behindSince === undefined ? 0 : Math.min(now - this.behindSince, this.oldestDueForMs(now));
  }
}
