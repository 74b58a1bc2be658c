import { randomBytes } from 'node:crypto';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { MaintenanceMetrics, MetricsRegistry, type LabelledCounter } from '../telemetry/index.js';
import { TenantLimits, type NearLimit } from '../limits/index.js';
import { partitionCode, RedisService, StoreUnavailable, tagOf, tenantIndexKey } from '../redis/index.js';
import { Worker, type Job, type TurnReport } from '../worker/index.js';

const DAY_MS = 86_400_000;
const JOB = 'ttl_index_reconcile';
/** From the end of one walk to the start of the next, and from the boot to the first. */
const INTERVAL_MS = 60_000;
const JITTER_MS = 10_000;
/** Entries per run: about 0.3 ms of Redis' time. */
const EXAMINE = 200;
/** Share of time for the walk, so that walking over weeks of ended reservations does not affect requests. */
const TIME_SHARE = 0.02;

export interface ReconcileReport {
  readonly examined: number;
  /** Live reservations that were missing from their index of deadlines, and those with a wrong score in it. */
  readonly missing: number;
  readonly misplaced: number;
  /** Tenants whose count of live reservations was corrected. */
  readonly recounted: number;
  /** Partitions that could not be walked. */
  readonly failed: number;
}

/** The progress of a walk, and what it found. */
interface Walk {
  readonly began: number;
  /** The events of one walk share a trace. */
  readonly trace: string;
  readonly report: { -readonly [Figure in keyof ReconcileReport]: ReconcileReport[Figure] };
  readonly near: NearLimit[];
  partition: number;
  /** Where the next run continues in the partition: tenant, time and id of the reservation, and the count so far. */
  place: readonly [tenant: string, walkedMs: string, walkedId: string, tally: string];
}

const START = ['', '', '', ''] as const;

/**
 * Walks over all tenants' reservations, adds live ones that are missing from their index of deadlines, and counts them. Holdfast's scripts
 * never cause missing entries; they come from restored backups and operators' edits. A turn is one run of the script; the pause after it
 * keeps the walk slow on purpose. Several instances may walk at once: one does not change what another has corrected.
 */
@Injectable()
export class Reconciler implements OnModuleInit, Job {
  readonly name = JOB;
  readonly role = 'janitor';
  readonly startsInMs = pauseMs();
  readonly afterErrorMs = INTERVAL_MS;
  private readonly found: LabelledCounter;
  private walk: Walk | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly maintenance: MaintenanceMetrics,
    metrics: MetricsRegistry,
    private readonly worker: Worker,
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

  onModuleInit(): void {
    this.worker.add(this);
  }

  async runTurn(): Promise<TurnReport> {
    const walk = (this.walk ??= beginWalk());
    const began = performance.now();
    if (await this.step(walk)) {
      return { sleepMs: (performance.now() - began) * (1 / TIME_SHARE - 1) };
    }
    this.walk = undefined;
    this.end(walk);
    return { sleepMs: pauseMs() };
  }

  /** One walk over all partitions without pauses. Never rejects: failures are in the report. */
  async reconcile(): Promise<ReconcileReport> {
    const walk = beginWalk();
    while (await this.step(walk)) {
      // Each step is bounded.
    }
    return this.end(walk);
  }

  /** One run of the script. Never rejects. @returns false once all partitions have been walked */
  private async step(walk: Walk): Promise<boolean> {
    const code = partitionCode(walk.partition);
    try {
      walk.place = await this.examine(tagOf(code), walk);
    } catch (error) {
      walk.place = START;
      walk.report.failed += 1;
      // The connection logs an outage once.
      if (!(error instanceof StoreUnavailable)) {
        this.logger.warn(
          { err: error, partition: code },
          'a partition could not be reconciled; the others are not affected',
        );
      }
    }
    walk.partition += walk.place[0] === '' ? 1 : 0;
    return walk.partition < this.redis.partitions;
  }

  private async examine(tag: string, { place, trace, report, near }: Walk): Promise<Walk['place']> {
    const [tenant, walkedMs, walkedId, tally] = place;
    const reply = await this.redis.scripts.call(
      'reconcile',
      { tenantIndex: tenantIndexKey(tag) },
      {
        tenant,
        walkedMs,
        walkedId,
        tally,
        examine: EXAMINE,
        retentionMs: this.config.auditRetentionDays * DAY_MS,
        trace,
        rest: Object.entries(this.limits.deployment).flat(),
      },
    );
    report.examined += reply.examined;
    for (const recount of reply.recounts) {
      report.recounted += 1;
      this.limits.countRepair();
      this.logger.debug(recount, 'the count of live reservations was wrong');
    }
    for (const { tenant: owner, limit, used, allowed } of reply.near) {
      near.push([owner, limit as NearLimit[1], String(used), String(allowed)]);
    }
    for (const { reservationId: reservation, place: found } of reply.found) {
      this.found.inc({ found });
      this.logger.warn({ reservation, found }, 'restored a live reservation to its deadline index');
      report[found === 'MISSING' ? 'missing' : 'misplaced'] += 1;
    }
    return [reply.tenant ?? '', reply.walkedMs ?? '', reply.walkedId ?? '', reply.tally ?? ''];
  }

  private end({ report, near, began }: Walk): ReconcileReport {
    this.maintenance.runEnded(JOB, report.failed === 0 ? 'success' : 'failed', performance.now() - began);
    if (report.failed === 0) {
      this.limits.reportNearLimits(near);
    }
    if (report.recounted > 0) {
      this.logger.warn(
        { tenants: report.recounted },
        'corrected counts of live reservations, which can be wrong after an upgrade or a restore',
      );
    }
    if (report.missing + report.misplaced > 0) {
      this.logger.error(
        report,
        'live reservations were missing or misplaced in their deadline index; restored them',
      );
    }
    return report;
  }
}

function beginWalk(): Walk {
  return {
    began: performance.now(),
    trace: `${randomBytes(16).toString('hex')}-01`,
    report: { examined: 0, missing: 0, misplaced: 0, recounted: 0, failed: 0 },
    near: [],
    partition: 0,
    place: START,
  };
}

function pauseMs(): number {
  return INTERVAL_MS + Math.random() * JITTER_MS;
}
