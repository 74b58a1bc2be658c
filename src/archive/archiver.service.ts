import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { archiveInstancesKey, archiveLeaseKey, archiveReportsKey, RedisService } from '../redis/index.js';
import {
  type HealthReport,
  type HealthWarning,
  LOGGER,
  type Logger,
  MetricsRegistry,
} from '../telemetry/index.js';
import {
  type BeatReport,
  countLeases,
  type Job,
  MAINTENANCE_METRICS,
  PartitionLeases,
  type Turn,
  type TurnReport,
  Worker,
} from '../worker/index.js';
import { ArchiveFolder } from './archive-folder.js';
import { ForeignArchive, ownArchive } from './archive-owner.js';
import { ArchiveEpochs } from './archive-epochs.js';
import { ARCHIVE_METRICS } from './archive.metrics.js';
import { ArchivePartition } from './archive-partition.js';
import { ParquetThread } from './parquet-thread.js';
import { StreamArchiver } from './stream-archiver.js';

/** Files that are prepared at the same time: while one is written, the next one is read. */
const AT_ONCE = 2;
const IDLE_MS = 1000;

/** What of the archive is open in this process, if it archives. */
export interface OpenArchive {
  readonly id: string;
  readonly folder: ArchiveFolder;
}

/**
 * Archives the partitions whose leases it holds; `StreamArchiver` has the protocol. A partition that fails does not stop the others, and is tried
 * again at the next turn.
 */
@Injectable()
export class ArchiverService implements Job, OnModuleInit {
  readonly name = 'archiving';
  readonly role = 'archiver';
  readonly afterErrorMs = 5000;
  readonly thread: ParquetThread;
  readonly leases: PartitionLeases<ArchivePartition>;
  /** Undefined until the folder is known to be this ledger's. */
  open: OpenArchive | undefined;
  private readonly counts = this.metrics.of(ARCHIVE_METRICS);
  private archiver: StreamArchiver | undefined;
  private epochs: ArchiveEpochs | undefined;
  /** What is wrong now, by the step that found it. */
  private readonly problems = new Map<string, string>();
  private isForeign = false;
  private beating: Promise<BeatReport | undefined> | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly worker: Worker,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.thread = new ParquetThread(() => this.counts.failures.inc({ step: 'thread' }));
    const leaseMs = config.archiveLeaseMs;
    this.leases = new PartitionLeases(redis, logger, {
      work: 'archived',
      leaseMs,
      beatMs: Math.floor(leaseMs / 3),
      instancesKey: archiveInstancesKey(),
      reportsKey: archiveReportsKey(),
      leaseKey: archiveLeaseKey,
      partition: (number) => new ArchivePartition(number),
      ask: (partition, token) => this.takeOrRenew(partition, token),
      mayLeave: ({ isBusy }) => !isBusy,
      ...countLeases(metrics.of(MAINTENANCE_METRICS), this.name, this.counts.leaseChanges),
    });
  }

  onModuleInit(): void {
    if (this.config.archiveDir === undefined || !this.config.roles.has('archiver')) {
      return;
    }
    this.worker.add(this);
    this.counts.lag.readFrom(() => this.lagMs() / 1000);
    this.counts.partitions.readFrom(() => this.leases.held.size);
  }

  async runTurn(turn: Turn): Promise<TurnReport> {
    const archiver = await this.ready();
    const began = performance.now();
    const beat = await this.beat(turn);
    const failed = await this.archiveDue(archiver, turn);
    if (failed.length > 0) {
      throw failed[0];
    }
    this.problems.delete('write');
    return {
      sleepMs: IDLE_MS,
      ...(beat !== undefined && {
        outcome: beat.failed === 0 ? ('success' as const) : ('failed' as const),
        durationMs: performance.now() - began,
      }),
    };
  }

  async drain(): Promise<void> {
    await this.leases.leave();
    await this.thread.stop();
  }

  private beat(turn: Turn): Promise<BeatReport | undefined> {
    this.beating ??= this.leases
      .beatWhenDue(() => '{}', turn)
      .finally(() => {
        this.beating = undefined;
      });
    return this.beating;
  }

  /** @throws ForeignArchive, or what keeps the folder from being opened */
  private async ready(): Promise<StreamArchiver> {
    if (this.archiver === undefined) {
      const folder = new ArchiveFolder(this.config.archiveDir as string);
      const { id, restoring } = await this.orFailed('open', ownArchive(folder.root, this.redis, this.thread));
      this.isForeign = false;
      this.epochs = new ArchiveEpochs(this.redis, folder, this.thread, this.logger, this.counts);
      if (restoring) {
        await this.orFailed('open', this.epochs.begin());
      }
      this.open = { id, folder };
      this.archiver = new StreamArchiver(this.redis, folder, this.thread, this.counts, this.config);
      this.logger.info({ archive: id }, 'this instance archives');
    }
    return this.archiver;
  }

  /** Counts a failure, and keeps its reason for readiness until the step succeeds. */
  async orFailed<T>(step: string, work: Promise<T>): Promise<T> {
    try {
      const result = await work;
      this.problems.delete(step);
      return result;
    } catch (error) {
      this.failed(step, error);
      throw error;
    }
  }

  /** Tells readiness what is wrong with the archive. */
  warn(step: string, problem: string | undefined): void {
    if (problem === undefined) {
      this.problems.delete(step);
    } else {
      this.problems.set(step, problem);
    }
  }

  private failed(step: string, error: unknown): void {
    this.counts.failures.inc({ step });
    this.warn(step, error instanceof Error ? error.message : String(error));
    this.isForeign = error instanceof ForeignArchive;
  }

  private async takeOrRenew(partition: ArchivePartition, token: string) {
    const reply = await this.redis.scripts.call(
      'archive_lease',
      { lease: partition.leaseKey, journal: partition.keyOf('charges') },
      { token, leaseMs: this.config.archiveLeaseMs },
    );
    if (reply.status === 'HELD' && !partition.isBusy) {
      partition.see(reply);
    }
    return reply;
  }

  /** @returns the errors of partitions that failed */
  private async archiveDue(archiver: StreamArchiver, turn: Turn): Promise<unknown[]> {
    const { archiveSettleMs: settleMs, archiveFlushMs: flushMs, archiveFileRows: fileRows } = this.config;
    const due = [...this.leases.held.values()].filter(
      (partition) => partition.due({ settleMs, flushMs, fileRows }).length > 0,
    );
    const epochs = this.epochs as ArchiveEpochs;
    const errors: unknown[] = [];
    const next = async (): Promise<void> => {
      for (let partition = due.shift(); partition !== undefined; partition = due.shift()) {
        partition.isBusy = true;
        try {
          if (!(await epochs.goesOn(partition))) {
            continue;
          }
          for (const kind of partition.due({ settleMs, flushMs, fileRows })) {
            await archiver.archive(partition, kind, this.leases.instance, turn);
            // A large backlog takes longer than a lease lasts.
            await this.beat(turn);
          }
        } catch (error) {
          this.failed('write', error);
          errors.push(error);
        } finally {
          partition.isBusy = false;
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    return errors;
  }

  private lagMs(): number {
    return Math.max(
      0,
      ...[...this.leases.held.values()].map(({ nowMs, streams: { charges } }) =>
        charges.oldestMs === undefined ? 0 : nowMs - charges.oldestMs,
      ),
    );
  }

  /** A folder of another deployment turns readiness red, because it never ends by itself. Nothing else does: reservations do not depend on the archive. */
  health(): HealthReport {
    const lagMs = this.lagMs();
    const problems = [...this.problems].map(([step, message]): HealthWarning => ({
      code: step === 'gaps' ? 'archive_gaps' : this.isForeign ? 'archive_foreign' : 'archive_failing',
      message,
    }));
    const message = `the archive is behind: its oldest entry has waited for ${lagMs} ms. Look for failures of the archiver in the log, and whether its disk keeps up`;
    const isBehind =
      lagMs > this.config.archiveAlertMs && !problems.some(({ code }) => code === 'archive_failing');
    return {
      up: !this.isForeign,
      warnings: [...problems, ...(isBehind ? [{ code: 'archive_behind', message } as const] : [])],
      details: { partitions: this.leases.held.size, lag_ms: lagMs },
    };
  }
}
