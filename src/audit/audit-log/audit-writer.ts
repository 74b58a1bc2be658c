import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { auditLogKey, briefAuditLogKey, RedisService, tagOfTenant } from '../../redis/index.js';
import {
  HealthContributors,
  type Instruments,
  LOGGER,
  type Logger,
  MetricsRegistry,
} from '../../telemetry/index.js';
import { AUDIT_METRICS } from '../audit.metrics.js';

/** The two logs of a partition; see src/redis/keyspace.ts. */
export type AuditLogName = 'audit' | 'audit-brief';

/** One row. lua/lib/audit_log.lua names its fields. */
export interface AuditRow {
  /** The tenant whose partition stores it. */
  readonly partitionOf: string;
  readonly log: AuditLogName;
  readonly fields: readonly (readonly [name: string, value: string | undefined])[];
}

/** Name and value pairs, without empty ones. */
export function textsOf({ fields }: AuditRow): string[] {
  return fields.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [name, value]));
}

/** What a row is about: a request that succeeded without its script writing a row, a refusal or failure, or a missing credential. */
export type PathClass = 'success' | 'failure' | 'unauthenticated';

/** The most rows that wait in this process, about a megabyte. Further ones are dropped and counted as errors. */
export const MAX_WAITING = 2000;
/** The most that lua/audit/append_audit_rows.lua takes. */
const ROWS_A_RUN = 50;
/** The most rows in a partition's brief log, 20 to 30 MB. Beyond that, the oldest are removed before their retention ends. */
const MOST_BRIEF_ROWS = 100_000;
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
  private readonly counts: Instruments<typeof AUDIT_METRICS>;
  private waiting: Waiting[] = [];
  private writing: Promise<void> | undefined;
  private isFailing = false;
  private lost = 0;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(HealthContributors) private readonly health: HealthContributors,
  ) {
    this.counts = metrics.of(AUDIT_METRICS);
  }

  /** Always up: the ledger works without these rows, so they are no reason to take the process out of service. */
  onModuleInit(): void {
    this.health.register({
      name: 'audit',
      check: () => ({ up: true, details: { rows_lost: this.lost, failing: this.isFailing } }),
    });
  }

  get size(): number {
    return this.waiting.length;
  }

  write(row: AuditRow, pathClass: PathClass): void {
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

  private async writeBatch(key: string, log: AuditLogName, batch: readonly Waiting[]): Promise<void> {
    const texts = batch.flatMap(({ row }) => {
      const fields = textsOf(row);
      return [fields.length, ...fields];
    });
    try {
      const { removed } = await this.redis.scripts.call(
        'append_audit_rows',
        { log: key },
        { logName: log, most: log === 'audit' ? 0 : MOST_BRIEF_ROWS, rest: texts },
      );
      this.counts.displaced.inc(removed);
      for (const { pathClass } of batch) {
        this.counts.writes.inc({ path_class: pathClass, outcome: 'written' });
      }
      this.isFailing = false;
    } catch (error) {
      this.lose(batch, error);
    }
  }

  private lose(batch: readonly Waiting[], error: unknown): void {
    for (const { pathClass } of batch) {
      this.counts.writes.inc({ path_class: pathClass, outcome: 'error' });
    }
    this.lost += batch.length;
    if (!this.isFailing) {
      this.isFailing = true;
      this.logger.warn(
        { err: error, rows: batch.length },
        'audit rows could not be written; their requests were answered',
      );
    }
  }

  private keyOf({ partitionOf, log }: AuditRow): string {
    const tag = tagOfTenant(partitionOf, this.redis.partitions);
    return log === 'audit' ? auditLogKey(tag) : briefAuditLogKey(tag);
  }
}
