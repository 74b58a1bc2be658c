import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  partitionCode,
  RedisService,
  type ScriptAnswer,
  sweepInstancesKey,
  sweepLeaseKey,
  sweepReportsKey,
  tagOf,
  ttlIndexKey,
} from '../redis/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { type LeaseAnswer, PartitionLeases } from '../worker/index.js';
import { SweepMetrics } from './sweep.metrics.js';

/** What a look at a partition's index of deadlines found, as lua/expiry/sweep_page.lua describes it. */
export type SweepLook = ScriptAnswer<'sweep_page', 'HELD'>;

/** A score that is no instant, such as an infinite one, counts as none. */
export function instantMs(score: number | undefined): number | undefined {
  return score !== undefined && Number.isFinite(score) ? score : undefined;
}

/**
 * What an instance knows of a partition that it sweeps. Instants are of its own monotonic clock, and they only decide
 * when to look again: what is due, Redis alone says.
 */
export class SweepPartition {
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
  see(look: SweepLook, seenAt: number): void {
    this.due = look.due;
    this.quarantined = look.quarantined;
    this.awaitingCleanup = look.awaiting;
    const instantOf = (score: number | undefined): number | undefined => {
      const ms = instantMs(score);
      return ms === undefined ? undefined : seenAt - (look.nowMs - ms);
    };
    this.oldestDueAt = instantOf(look.oldestDueMs);
    this.oldestAwaitingAt = instantOf(look.oldestAwaitingMs);
    this.behindSince = look.due === 0 ? undefined : (this.behindSince ?? seenAt);
    if (look.due > 0) {
      this.dueFrom = seenAt;
    } else {
      // A hold is due in the millisecond after its deadline.
      this.dueFrom = (instantOf(look.nextDeadlineMs) ?? Number.POSITIVE_INFINITY) + 1;
    }
  }

  /** Everything that was due at the last look has been judged. */
  caughtUp(look: SweepLook, seenAt: number): void {
    const { oldestDueMs: _, ...rest } = look;
    this.see({ ...rest, due: 0 }, seenAt);
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

/** Which partitions this instance sweeps. Sweeping one twice is harmless, because lua/expire.lua alone judges. */
@Injectable()
export class SweepLeases extends PartitionLeases<SweepPartition> {
  constructor(
    redis: RedisService,
    metrics: SweepMetrics,
    @Inject(CONFIG) { sweepLeaseMs: leaseMs, sweepIntervalMs }: HoldfastConfig,
    @Inject(LOGGER) logger: Logger,
  ) {
    super(redis, logger, {
      work: 'swept',
      leaseMs,
      beatMs: Math.min(sweepIntervalMs, Math.floor(leaseMs / 3)),
      instancesKey: sweepInstancesKey(),
      reportsKey: sweepReportsKey(),
      leaseKey: sweepLeaseKey,
      partition: (number) => new SweepPartition(number),
      ask: (partition, token) => takeOrRenew(redis, partition, token, leaseMs),
      mayLeave: () => true,
      changed: (change) => metrics.leaseChanged(change),
      announcementFailed: () => metrics.leaseFailed(),
    });
  }
}

async function takeOrRenew(
  redis: RedisService,
  partition: SweepPartition,
  token: string,
  leaseMs: number,
): Promise<LeaseAnswer> {
  const { tag } = partition;
  const look = await redis.scripts.call(
    'sweep_page',
    { lease: sweepLeaseKey(tag), ttlIndex: ttlIndexKey(tag) },
    { token, leaseMs, take: 1, skip: 0, limit: 0 },
  );
  if (look.status !== 'HELD') {
    return { word: 'other', lapsesInMs: look.status === 'OTHER' ? look.lapsesInMs : 0 };
  }
  partition.see(look, performance.now());
  return { word: look.lease === 'taken' ? 'taken' : 'held' };
}
