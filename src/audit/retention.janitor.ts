import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  endedKey,
  partitionCode,
  RedisService,
  StoreUnavailable,
  tagOf,
  tenantIndexKey,
  toStoreError,
} from '../redis/index.js';
import {
  type LabelledCounter,
  type LabelledGauge,
  MaintenanceMetrics,
  MetricsRegistry,
} from '../telemetry/index.js';
import { type Turn, Worker } from '../worker/index.js';

export type RetentionJob =
  'audit_retention' | 'record_packing' | 'event_retention' | 'audit_log_retention' | 'api_key_expiry';

/** Counts the maintenance of ended reservations' records, their index entries, old events and audit rows. */
@Injectable()
export class RetentionMetrics {
  private readonly examined: LabelledCounter;
  private readonly packed: LabelledCounter;
  private readonly unpacked: LabelledCounter;
  private readonly waiting: LabelledGauge;
  private readonly cuts: LabelledCounter;
  private readonly events: LabelledCounter;
  private readonly rows: LabelledCounter;
  private readonly held: LabelledGauge;
  private readonly keys: LabelledCounter;

  constructor(
    metrics: MetricsRegistry,
    private readonly maintenance: MaintenanceMetrics,
  ) {
    this.examined = metrics.counter({
      name: 'holdfast_index_entries_examined_total',
      help: 'Index entries whose records were checked.',
    });
    this.packed = metrics.counter({
      name: 'holdfast_records_packed_total',
      help: 'Records of ended reservations that were packed.',
    });
    this.unpacked = metrics.counter({
      name: 'holdfast_records_not_packed_total',
      help: 'Records that could not be packed: gone, or not in the expected form.',
    });
    this.waiting = metrics.gauge({
      name: 'holdfast_records_to_pack',
      help: 'Ended reservations whose records are still to be packed.',
      acrossWorkers: 'max',
    });
    this.cuts = metrics.counter({
      name: 'holdfast_maintenance_cut_total',
      help: 'Runs that ended at their time budget before all work was done.',
      labels: ['job'],
    });
    this.events = metrics.counter({
      name: 'holdfast_events_trimmed_total',
      help: 'Events removed after their retention.',
    });
    this.rows = metrics.counter({
      name: 'holdfast_audit_rows_trimmed_total',
      help: 'Rows of the audit log removed after their retention.',
    });
    this.keys = metrics.counter({
      name: 'holdfast_api_keys_expired_total',
      help: 'API keys whose expiry was recorded as an event.',
    });
    this.held = metrics.gauge({
      name: 'holdfast_event_logs_held',
      help: 'Partitions that keep events beyond their retention because no dispatcher has read them.',
      acrossWorkers: 'max',
    });
  }

  cut(job: RetentionJob): void {
    this.cuts.inc({ job });
  }

  looked(examined: number, removed: number): void {
    this.examined.inc({}, examined);
    this.maintenance.trimmedEntries(removed);
  }

  pack(examined: number, packed: number): void {
    this.packed.inc({}, packed);
    this.unpacked.inc({}, examined - packed);
  }

  waitingToPack(count: number): void {
    this.waiting.set(count);
  }

  trimmedEvents(count: number): void {
    this.events.inc({}, count);
  }

  trimmedRows(count: number): void {
    this.rows.inc({}, count);
  }

  heldLogs(count: number): void {
    this.held.set(count);
  }

  expiredKeys(count: number): void {
    this.keys.inc({}, count);
  }
}

/** Together with the duration of a run, this is how long an index entry may outlive its record. */
const TRIM_INTERVAL_MS = 60_000;
const TRIM_BUDGET_MS = 500;
/** Entries that one script examines: a fraction of a millisecond if their records exist. */
const EXAMINED_A_RUN = 500;
/** How many of those that are left out an error names. */
const LEFT_OUT_NAMED = 10;

/** Packing gets at most a twentieth of the time, so that under load it is left for quieter times. */
const PACK_INTERVAL_MS = 1000;
const PACK_BUDGET_MS = 50;
/** Records that one script packs: one or two milliseconds. */
const PACKED_A_RUN = 50;

const DAY_MS = 86_400_000;

interface TrimPlace {
  readonly partition: number;
  readonly tenant: string;
  readonly walkedMs: string;
  readonly walkedId: string;
}

/**
 * Keeps stored reservations small: packs the records of ended ones, and removes the index entries of those whose retention has ended.
 * Both are bounded by count and time, and continue where they stopped.
 */
@Injectable()
export class RetentionJanitor implements OnModuleInit {
  private readonly retentionMs: number;
  private place: TrimPlace | undefined;
  /** What the last complete pass left out: tenants with a damaged index, and partitions with the error of the script. */
  private leftOut = new Map<string, unknown>();
  /** The same of this pass so far. */
  private found = new Map<string, unknown>();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: RetentionMetrics,
    private readonly worker: Worker,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
  }

  onModuleInit(): void {
    this.worker.addRegular({
      name: 'audit_retention',
      role: 'janitor',
      intervalMs: TRIM_INTERVAL_MS,
      run: (turn) => this.trim(TRIM_BUDGET_MS, turn),
    });
    this.worker.addRegular({
      name: 'record_packing',
      role: 'janitor',
      intervalMs: PACK_INTERVAL_MS,
      run: (turn) => this.pack(PACK_BUDGET_MS, turn),
    });
  }

  /**
   * One pass over all partitions, or as much of it as the time allows. A damaged index is left out, and so is the rest of a partition in
   * which the script fails.
   * @throws StoreUnavailable, or Error that names what was left out in the last complete pass or in this one
   */
  async trim(budgetMs = TRIM_BUDGET_MS, turn?: Turn): Promise<void> {
    const deadline = performance.now() + budgetMs;
    if (await this.walk(deadline, turn)) {
      this.leftOut = this.found;
      this.found = new Map();
    } else {
      this.metrics.cut('audit_retention');
    }
    const leftOut = new Map([...this.leftOut, ...this.found]);
    if (leftOut.size > 0) {
      const named = [...leftOut.keys()].slice(0, LEFT_OUT_NAMED).join(', ');
      const others = leftOut.size > LEFT_OUT_NAMED ? ` and ${leftOut.size - LEFT_OUT_NAMED} more` : '';
      throw new Error(`not trimmed: ${named}${others}`, {
        cause: [...leftOut.values()].find((error) => error !== undefined),
      });
    }
  }

  /** Unlike a PartitionPass, it also continues within a partition. @returns whether it came to the end */
  private async walk(deadline: number, turn: Turn | undefined): Promise<boolean> {
    const from = this.place;
    for (let partition = from?.partition ?? 0; partition < this.redis.partitions; partition += 1) {
      let place: TrimPlace | undefined =
        from?.partition === partition ? from : { partition, tenant: '', walkedMs: '', walkedId: '' };
      while (place !== undefined) {
        this.place = place;
        if (performance.now() > deadline) {
          return false;
        }
        place = await this.trimRun(place);
        // Another turn may go on from the same place.
        if (turn?.goesOn() === false) {
          return false;
        }
      }
    }
    this.place = undefined;
    return true;
  }

  /** @returns where to go on in the partition; undefined at its end, or if it cannot be read */
  private async trimRun({ partition, ...place }: TrimPlace): Promise<TrimPlace | undefined> {
    const code = partitionCode(partition);
    const args = { ...place, examine: EXAMINED_A_RUN, retentionMs: this.retentionMs };
    try {
      const reply = await this.redis.scripts.call(
        'trim_reservation_index',
        { tenantIndex: tenantIndexKey(tagOf(code)) },
        args,
      );
      this.metrics.looked(reply.examined, reply.removed);
      reply.damaged.forEach((name) => this.found.set(`tenant ${name}`, undefined));
      const { tenant, walkedMs = '', walkedId = '' } = reply;
      return tenant === undefined ? undefined : { partition, tenant, walkedMs, walkedId };
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      this.found.set(`partition ${code}`, error);
      return undefined;
    }
  }

  /** Packs waiting records for as long as the time allows. @throws StoreUnavailable */
  async pack(budgetMs = PACK_BUDGET_MS, turn?: Turn): Promise<void> {
    const deadline = performance.now() + budgetMs;
    const keys = Array.from({ length: this.redis.partitions }, (_, partition) =>
      endedKey(tagOf(partitionCode(partition))),
    );
    const lengths = await Promise.all(keys.map((key) => this.redis.client.llen(key))).catch(
      (error: unknown) => {
        throw toStoreError(error);
      },
    );
    this.metrics.waitingToPack(lengths.reduce((sum, length) => sum + length, 0));
    for (const key of keys.filter((_, index) => (lengths[index] as number) > 0)) {
      for (let left = 1; left > 0;) {
        if (turn?.goesOn() === false || performance.now() > deadline) {
          this.metrics.cut('record_packing');
          return;
        }
        const { examined, packed, remaining } = await this.redis.scripts.call(
          'pack_records',
          { ended: key },
          { limit: PACKED_A_RUN },
        );
        this.metrics.pack(examined, packed);
        left = remaining;
      }
    }
  }
}
