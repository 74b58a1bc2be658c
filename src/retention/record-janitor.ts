import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  journalKey,
  journalPlacesKey,
  RedisService,
  StoreUnavailable,
  tagOfPartition,
  tenantIndexKey,
  toStoreError,
} from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { type LeaveOut, MAINTENANCE_METRICS, PartitionJobs, type PartitionRun } from '../worker/index.js';
import { RETENTION_METRICS } from './retention.metrics.js';

/** Together with the duration of a run, this is how long an index entry may outlive its record. */
const TRIM_INTERVAL_MS = 60_000;
/** Entries that one script examines: a fraction of a millisecond if their records exist. */
const EXAMINED_A_RUN = 500;

/** Packing gets at most a twentieth of the time, so that under load it is left for quieter times. */
const PACK_INTERVAL_MS = 1000;
const PACK_BUDGET_MS = 50;
/** Entries of the journal that one script follows, with the records that they name: one or two milliseconds. */
const PACKED_A_RUN = 50;

interface TrimPlace {
  readonly tenant: string;
  readonly walkedMs: string;
  readonly walkedId: string;
}
const START: TrimPlace = { tenant: '', walkedMs: '', walkedId: '' };

/**
 * Keeps stored reservations small: packs the records of ended ones, and removes the index entries of those whose retention has ended.
 * Both are bounded by count and time, and continue where they stopped.
 */
@Injectable()
export class RecordJanitor {
  /** A damaged index is left out. */
  readonly trim: PartitionRun;
  readonly pack: PartitionRun;
  private readonly counts = this.metrics.of(RETENTION_METRICS);
  private readonly retentionMs: number;
  /** The partitions without anything to pack when the run began. */
  private packed: ReadonlySet<string> = new Set();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    jobs: PartitionJobs,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionMs;
    this.trim = jobs.add<TrimPlace>({
      name: 'audit_retention',
      intervalMs: TRIM_INTERVAL_MS,
      undone: 'not trimmed',
      visit: (tag, place = START, { leaveOut }) => this.trimOf(tag, place, leaveOut),
      cut: () => this.counts.cuts.inc({ job: 'audit_retention' }),
    });
    this.pack = jobs.add({
      name: 'record_packing',
      intervalMs: PACK_INTERVAL_MS,
      budgetMs: PACK_BUDGET_MS,
      undone: 'not packed',
      before: () => this.findUnpacked(),
      visit: (tag) => this.packOf(tag),
      cut: () => this.counts.cuts.inc({ job: 'record_packing' }),
    });
  }

  private async trimOf(tag: string, place: TrimPlace, leaveOut: LeaveOut): Promise<TrimPlace | undefined> {
    const reply = await this.redis.scripts.call(
      'trim_reservation_index',
      { tenantIndex: tenantIndexKey(tag) },
      { ...place, examine: EXAMINED_A_RUN, retentionMs: this.retentionMs },
    );
    this.counts.examined.inc(reply.examined);
    this.metrics.of(MAINTENANCE_METRICS).trimmed.inc(reply.removed);
    reply.damaged.forEach((name) => leaveOut(`tenant ${name}`));
    const { tenant, walkedMs = '', walkedId = '' } = reply;
    return tenant === undefined ? undefined : { tenant, walkedMs, walkedId };
  }

  private async findUnpacked(): Promise<void> {
    const tags = Array.from({ length: this.redis.partitions }, (_, partition) => tagOfPartition(partition));
    const lengths = await Promise.all(tags.map((tag) => this.unpackedIn(tag)));
    this.counts.toPack.set(lengths.reduce((sum, length) => sum + length, 0));
    this.packed = new Set(tags.filter((_, index) => lengths[index] === 0));
  }

  /**
   * The entries of a partition's journal that packing has not passed; the others wait for the archiver. A journal that cannot be read counts as
   * one, so that its partition is visited and named. @throws StoreUnavailable
   */
  private async unpackedIn(tag: string): Promise<number> {
    const { client } = this.redis;
    try {
      const [length, kept] = await Promise.all([
        client.xlen(journalKey(tag)),
        client.hget(journalPlacesKey(tag), 'kept'),
      ]);
      return Math.max(0, length - Number(kept ?? 0));
    } catch (error) {
      const failure = toStoreError(error);
      if (failure instanceof StoreUnavailable) {
        throw failure;
      }
      return 1;
    }
  }

  private async packOf(tag: string): Promise<boolean> {
    if (this.packed.has(tag)) {
      return false;
    }
    const { passed, examined, packed, remaining, lost } = await this.redis.scripts.call(
      'pack_records',
      { journal: journalKey(tag) },
      { limit: PACKED_A_RUN },
    );
    this.counts.passed.inc(passed);
    this.counts.packed.inc(packed);
    this.counts.notPacked.inc(examined - packed);
    this.counts.lost.inc(lost);
    return remaining > 0;
  }
}
