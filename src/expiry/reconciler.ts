import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { type NearLimit, TenantLimits } from '../limits/index.js';
import { partitionCode, RedisService, tagOf, tenantIndexKey } from '../redis/index.js';
import {
  type LabelledCounter,
  LOGGER,
  type Logger,
  MaintenanceMetrics,
  MetricsRegistry,
} from '../telemetry/index.js';

const DAY_MS = 86_400_000;
const JOB = 'ttl_index_reconcile';
/** From the end of one walk to the start of the next; the first one starts as long after the boot. */
const INTERVAL_MS = 60_000;
const JITTER_MS = 10_000;
/** Entries of one run: some 0.3 ms of Redis' time. */
const EXAMINE = 200;
/** The walk may use this part of the time, so that weeks of ended reservations can be walked past without being noticed. */
const TIME_SHARE = 0.02;

export interface ReconcileReport {
  readonly examined: number;
  /** Live reservations that were not in their index of deadlines, and those that stood at the wrong place in it. */
  readonly missing: number;
  readonly misplaced: number;
  /** Tenants whose count of live reservations was put right. */
  readonly recounted: number;
  /** Partitions that could not be walked. */
  readonly failed: number;
}

/**
 * Walks all tenants' reservations, puts live ones that are missing from their index of deadlines back into it, and counts them. No script of
 * Holdfast leaves any behind: they come from restored backups and from operators' edits. Runs never overlap, are slow on
 * purpose, and end before shutdown goes on. Several instances may walk at once; what one has put right the other leaves alone.
 */
@Injectable()
export class Reconciler implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly found: LabelledCounter;
  private running: Promise<unknown> = Promise.resolve();
  private readonly stopping = new AbortController();

  constructor(
    private readonly redis: RedisService,
    private readonly maintenance: MaintenanceMetrics,
    metrics: MetricsRegistry,
    private readonly scheduler: SchedulerRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly limits: TenantLimits,
  ) {
    this.found = metrics.counter({
      name: 'holdfast_reconciled_total',
      help: 'Live reservations that the reconciler put back into their index of deadlines, TTL or cleanup, by what was wrong: MISSING or MISPLACED.',
      labels: ['found'],
    });
  }

  onApplicationBootstrap(): void {
    if (this.config.roles.has('janitor')) {
      this.schedule();
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    if (this.scheduler.doesExist('timeout', JOB)) {
      this.scheduler.deleteTimeout(JOB);
    }
    await this.running;
  }

  /**
   * One walk through all partitions. Never rejects: what failed is in the report.
   * @param timeShare which part of the time it may use; 1 does not pause
   */
  async reconcile(timeShare = 1): Promise<ReconcileReport> {
    const began = performance.now();
    const total = { examined: 0, missing: 0, misplaced: 0, recounted: 0, failed: 0 };
    const near: NearLimit[] = [];
    const trace = `${randomBytes(16).toString('hex')}-01`;
    for (let number = 0; number < this.redis.partitions && !this.stopping.signal.aborted; number += 1) {
      const code = partitionCode(number);
      try {
        await this.walk(tagOf(code), { trace, timeShare, total, near });
      } catch (error) {
        total.failed += 1;
        this.logger.warn(
          { err: error, partition: code },
          'a partition could not be reconciled; the others go on',
        );
      }
    }
    this.maintenance.ended(JOB, total.failed === 0 ? 'success' : 'failed', performance.now() - began);
    if (total.failed === 0 && !this.stopping.signal.aborted) {
      this.limits.reportNearLimits(near);
    }
    if (total.recounted > 0) {
      this.logger.warn(
        { tenants: total.recounted },
        'counts of live reservations were wrong, as after an upgrade or a restore; they are right again',
      );
    }
    if (total.missing + total.misplaced > 0) {
      this.logger.error(
        total,
        'live reservations were missing from their index of deadlines, or stood at the wrong place; they are back',
      );
    }
    return total;
  }

  private schedule(): void {
    this.scheduler.addTimeout(
      JOB,
      setTimeout(
        () => {
          this.scheduler.deleteTimeout(JOB);
          this.running = this.reconcile(TIME_SHARE).then(() => {
            if (!this.stopping.signal.aborted) {
              this.schedule();
            }
          });
        },
        INTERVAL_MS + Math.random() * JITTER_MS,
      ),
    );
  }

  private async walk(tag: string, { trace, timeShare, total, near }: Walk): Promise<void> {
    let place: [string, string, string, string] = ['', '', '', ''];
    const limits = Object.entries(this.limits.deployment).flat();
    do {
      const began = performance.now();
      const [, , tenant = '', walkedMs = '', walkedId = '', tally = '', examined, ...rows] =
        await this.redis.scripts.run(
          'reconcile',
          [tenantIndexKey(tag)],
          [...place, EXAMINE, this.config.auditRetentionDays * DAY_MS, trace, ...limits],
        );
      place = [tenant, walkedMs, walkedId, tally];
      total.examined += Number(examined);
      for (const [owner, counted, really] of takeRows(rows, 3)) {
        total.recounted += 1;
        this.limits.countRepair();
        this.logger.debug({ tenant: owner, counted, really }, 'the count of live reservations was wrong');
      }
      near.push(...(takeRows(rows, 4) as unknown as NearLimit[]));
      for (const [reservationId, found] of takeRows(rows, 2)) {
        this.tell(reservationId as string, found as string, total);
      }
      await this.rest(performance.now() - began, timeShare);
    } while (place[0] !== '' && !this.stopping.signal.aborted);
  }

  private tell(reservationId: string, found: string, total: Walk['total']): void {
    this.found.inc({ found });
    this.logger.warn(
      { reservation: reservationId, found },
      'a live reservation is back in its index of deadlines',
    );
    if (found === 'MISSING') {
      total.missing += 1;
    } else {
      total.misplaced += 1;
    }
  }

  private async rest(workedMs: number, timeShare: number): Promise<void> {
    const restMs = workedMs * (1 / timeShare - 1);
    if (restMs >= 1) {
      await delay(restMs, undefined, { signal: this.stopping.signal }).catch(() => undefined);
    }
  }
}

interface Walk {
  readonly trace: string;
  readonly timeShare: number;
  readonly total: { examined: number; missing: number; misplaced: number; recounted: number; failed: number };
  readonly near: NearLimit[];
}

/** Takes a counted list of rows off the front of a reply. */
function takeRows(parts: string[], width: number): string[][] {
  const count = Number(parts.shift());
  return Array.from({ length: count }, () => parts.splice(0, width));
}
