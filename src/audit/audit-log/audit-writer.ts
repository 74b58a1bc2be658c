import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { RedisService, tagOfTenant } from '../../redis/index.js';
import { HealthContributors, LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { AUDIT_METRICS } from '../audit.metrics.js';
import { type AuditLog, LOGS } from './audit-log-rows.js';

/** One row. lua/lib/audit_log.lua names its fields. */
export interface AuditRow {
  /** The tenant whose partition stores it. */
  readonly partitionOf: string;
  readonly log: AuditLog;
  readonly fields: readonly (readonly [name: string, value: string | undefined])[];
}

/** Name and value pairs, without empty ones. */
export function textsOf({ fields }: AuditRow): string[] {
  return fields.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [name, value]));
}

/**
 * What a row is about: a request that succeeded without its script writing a row, a refusal or failure, or a missing credential; or a row
 * of the request log.
 */
export type PathClass = 'success' | 'failure' | 'unauthenticated' | 'refused';

/** The most rows that wait in this process, about a megabyte. Further ones are dropped and counted as errors. */
export const MAX_WAITING = 2000;
/** The most that lua/audit/append_audit_rows.lua takes. */
const ROWS_A_RUN = 50;
/**
 * The most rows in a partition's log, and of one tenant, or 0. Beyond that, the oldest are removed before their retention ends. The brief
 * log takes 20 to 30 MB, the request log 10 to 15.
 */
const LIMITS: Readonly<Record<AuditLog, { most: number; mostATenant: number }>> = {
  audit: { most: 0, mostATenant: 0 },
  'audit-brief': { most: 100_000, mostATenant: 0 },
  refused: { most: 20_000, mostATenant: 1000 },
};
/** How long a shutdown or a list waits for rows still to be written. */
const DRAIN_MS = 1000;

interface Waiting {
  readonly row: AuditRow;
  readonly pathClass: PathClass;
}

/**
 * Writes rows in the background, one script at a time, with as many rows of one log as are waiting. It never throws and never delays
 * a request. Rows that cannot be written are counted and not retried, so that a Redis that was down or full is not flooded afterwards.
 * The first failure is logged; the next is logged only after a write succeeded in between.
 */
@Injectable()
export class AuditWriter implements OnModuleInit {
  private readonly counts = this.metrics.of(AUDIT_METRICS);
  private waiting: Waiting[] = [];
  private writing: Promise<void> | undefined;
  /** The logs whose last write failed. */
  private readonly failing = new Set<AuditLog>();
  private lost = 0;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(HealthContributors) private readonly health: HealthContributors,
  ) {}

  /** Always up: the ledger works without these rows, so they are no reason to take the process out of service. */
  onModuleInit(): void {
    this.health.register({
      name: 'audit',
      check: () => ({
        up: true,
        details: { rows_lost: this.lost, failing: this.failing.size > (this.failing.has('refused') ? 1 : 0) },
      }),
    });
  }

  get size(): number {
    return this.waiting.length;
  }

  write(row: AuditRow, pathClass: PathClass): void {
    // Refusals are many where a client retries what cannot succeed; they leave room for the audit log.
    if (pathClass === 'refused' && this.waiting.length >= MAX_WAITING / 2) {
      this.counts.writes.inc({ path_class: pathClass, outcome: 'dropped' });
      return;
    }
    if (this.waiting.length >= MAX_WAITING) {
      this.lose([{ row, pathClass }], new Error(`${MAX_WAITING} rows are waiting to be written`));
      return;
    }
    this.waiting.push({ row, pathClass });
    this.writing ??= this.writeAll();
  }

  /** Waits, for at most a second, until all rows passed so far are written or lost. */
  async drained(): Promise<void> {
    if (this.writing === undefined) {
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const waited = new Promise<void>((done) => {
      timer = setTimeout(done, DRAIN_MS);
    });
    await Promise.race([this.writing, waited]);
    clearTimeout(timer);
  }

  private async writeAll(): Promise<void> {
    while (this.waiting.length > 0) {
      const [first] = this.waiting as [Waiting];
      const key = this.keyOf(first.row);
      const batch: Waiting[] = [];
      const others: Waiting[] = [];
      for (const entry of this.waiting) {
        (batch.length < ROWS_A_RUN && this.keyOf(entry.row) === key ? batch : others).push(entry);
      }
      this.waiting = others;
      await this.writeBatch(key, first.row.log, batch);
    }
    // No await between the last check and this line: otherwise a row added in between would wait until the next one comes.
    this.writing = undefined;
  }

  private async writeBatch(key: string, log: AuditLog, batch: readonly Waiting[]): Promise<void> {
    const texts = batch.flatMap(({ row }) => {
      const fields = textsOf(row);
      return [fields.length, ...fields];
    });
    try {
      const { removed } = await this.redis.scripts.call(
        'append_audit_rows',
        { log: key },
        { logName: log, ...LIMITS[log], rest: texts },
      );
      if (log !== 'refused') {
        this.counts.displaced.inc(removed);
      }
      for (const { pathClass } of batch) {
        this.counts.writes.inc({ path_class: pathClass, outcome: 'written' });
      }
      this.failing.delete(log);
    } catch (error) {
      this.lose(batch, error);
    }
  }

  private lose(batch: readonly Waiting[], error: unknown): void {
    for (const { pathClass } of batch) {
      this.counts.writes.inc({ path_class: pathClass, outcome: 'error' });
    }
    const log = batch[0]?.row.log ?? 'audit';
    // Rows of the request log are counted only: they are there to look at, not a record.
    this.lost += log === 'refused' ? 0 : batch.length;
    if (!this.failing.has(log)) {
      this.failing.add(log);
      this.logger.warn(
        { err: error, log, rows: batch.length },
        'rows of a log could not be written; their requests were answered',
      );
    }
  }

  private keyOf({ partitionOf, log }: AuditRow): string {
    return LOGS[log].keyOf(tagOfTenant(partitionOf, this.redis.partitions));
  }
}
