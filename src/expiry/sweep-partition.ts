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
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { countLeases, type LeaseReply, MAINTENANCE_METRICS, PartitionLeases } from '../worker/index.js';
import { SWEEP_METRICS } from './expiry.metrics.js';

/** The state of a partition's index of deadlines, as lua/expiry/sweep_page.lua returns it. */
export type SweepSnapshot = ScriptAnswer<'sweep_page', 'HELD'>;

/** A score that is not an instant, such as infinity, is ignored. */
export function instantMs(score: number | undefined): number | undefined {
  return score !== undefined && Number.isFinite(score) ? score : undefined;
}

/**
 * A partition that this instance sweeps. Instants are of the process' monotonic clock and only decide when to read again. Redis alone
 * decides what is due.
 */
export class SweepPartition {
  readonly code: string;
  readonly tag: string;
  /** When something is next known to be due. Infinite if the index is empty. */
  dueFrom = Number.POSITIVE_INFINITY;
  /** When it last had its turn. The least recent one is next. */
  servedAt = 0;
  due = 0;
  quarantined = 0;
  awaitingCleanup = 0;
  /** Since when every read has found due holds. */
  behindSince: number | undefined;
  private oldestDueAt: number | undefined;
  private oldestAwaitingAt: number | undefined;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.tag = tagOf(this.code);
  }

  /** @param seenAt when the reply arrived, so that a deadline is never treated as due too early. */
  see(snapshot: SweepSnapshot, seenAt: number): void {
    this.due = snapshot.due;
    this.quarantined = snapshot.quarantined;
    this.awaitingCleanup = snapshot.awaiting;
    const instantOf = (score: number | undefined): number | undefined => {
      const ms = instantMs(score);
      return ms === undefined ? undefined : seenAt - (snapshot.nowMs - ms);
    };
    this.oldestDueAt = instantOf(snapshot.oldestDueMs);
    this.oldestAwaitingAt = instantOf(snapshot.oldestAwaitingMs);
    this.behindSince = snapshot.due === 0 ? undefined : (this.behindSince ?? seenAt);
    if (snapshot.due > 0) {
      this.dueFrom = seenAt;
    } else {
      // A hold is due in the millisecond after its deadline.
      this.dueFrom = (instantOf(snapshot.nextDeadlineMs) ?? Number.POSITIVE_INFINITY) + 1;
    }
  }

  /** Everything that was due at the last read has been judged. */
  caughtUp(snapshot: SweepSnapshot, seenAt: number): void {
    const { oldestDueMs: _, ...rest } = snapshot;
    this.see({ ...rest, due: 0 }, seenAt);
  }

  /** How long the oldest hold that awaits cleanup has waited, as of the last read. */
  oldestAwaitingForMs(now: number): number {
    return this.oldestAwaitingAt === undefined ? 0 : Math.max(0, now - this.oldestAwaitingAt);
  }

  /** How long the oldest due hold has waited, as of the last read. */
  oldestDueForMs(now: number): number {
    return this.oldestDueAt === undefined ? 0 : Math.max(0, now - this.oldestDueAt);
  }

  /** The same, and how long ago one became due that was only known to become due. Below 0 if none has. */
  overdueMs(now: number): number {
    return Math.max(this.oldestDueForMs(now), now - this.dueFrom);
  }

  /**
   * How long a due hold has waited for this sweeper. Time before this instance held the partition, or while Redis was unreachable, does not
   * count.
   */
  lateForMs(now: number): number {
    return this.behindSince === undefined ? 0 : Math.min(now - this.behindSince, this.oldestDueForMs(now));
  }
}

/** Decides which partitions this instance sweeps. Sweeping one twice is harmless, because lua/expiry/expire_page.lua decides by the record. */
@Injectable()
export class SweepLeases extends PartitionLeases<SweepPartition> {
  constructor(
    redis: RedisService,
    metrics: MetricsRegistry,
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
      ...countLeases(
        metrics.of(MAINTENANCE_METRICS),
        'reservation_expiry',
        metrics.of(SWEEP_METRICS).leaseChanges,
      ),
    });
  }
}

async function takeOrRenew(
  redis: RedisService,
  partition: SweepPartition,
  token: string,
  leaseMs: number,
): Promise<LeaseReply> {
  const { tag } = partition;
  const reply = await redis.scripts.call(
    'sweep_page',
    { lease: sweepLeaseKey(tag), ttlIndex: ttlIndexKey(tag) },
    { token, leaseMs, take: 1, skip: 0, limit: 0 },
  );
  if (reply.status === 'HELD') {
    partition.see(reply, performance.now());
  }
  return reply;
}
