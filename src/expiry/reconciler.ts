import { randomBytes } from 'node:crypto';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { type NearLimit, TenantLimits } from '../limits/index.js';
import { RedisService, tenantIndexKey } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { type Job, PartitionWalk, type TurnReport, Worker } from '../worker/index.js';
import { EXPIRY_METRICS } from './expiry.metrics.js';

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
}

/** One walk over all partitions. */
interface Pass {
  readonly began: number;
  /** The events of one walk share a trace. */
  readonly trace: string;
  readonly report: { -readonly [Figure in keyof ReconcileReport]: ReconcileReport[Figure] };
  readonly near: NearLimit[];
}

/** Where the next run continues in a partition: tenant, time and id of the reservation, and the count of that tenant so far. */
type Place = readonly [tenant: string, walkedMs: string, walkedId: string, tally: string];

const START: Place = ['', '', '', ''];

/**
 * Walks over all tenants' reservations, adds live ones that are missing from their index of deadlines, and counts them. Holdfast's scripts
 * never cause missing entries; they come from restored backups and operators' edits. A turn is one run of the script; the pause after it
 * keeps the walk slow on purpose. Partitions take turns, and each keeps the count of its current tenant. Several instances may walk at once: one does not change what another has corrected.
 */
@Injectable()
export class Reconciler implements OnModuleInit, Job {
  readonly name = 'ttl_index_reconcile';
  readonly role = 'janitor';
  readonly startsInMs = pauseMs();
  readonly afterErrorMs = INTERVAL_MS;
  private readonly counts = this.metrics.of(EXPIRY_METRICS);
  private readonly walk: PartitionWalk<Place>;
  private pass = newPass();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    private readonly worker: Worker,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly limits: TenantLimits,
  ) {
    this.walk = new PartitionWalk({
      undone: 'not reconciled',
      visit: (tag, place = START) => this.examine(tag, place),
      ended: () => this.tell(),
    });
  }

  onModuleInit(): void {
    this.worker.add(this);
  }

  async runTurn(): Promise<TurnReport> {
    const began = performance.now();
    if (await this.step()) {
      return { sleepMs: (performance.now() - began) * (1 / TIME_SHARE - 1) };
    }
    return { sleepMs: pauseMs(), outcome: 'success', durationMs: performance.now() - this.pass.began };
  }

  /** The rest of the current walk over all partitions, or a new one, without pauses. @throws as PartitionWalk does */
  async reconcile(): Promise<ReconcileReport> {
    while (await this.step()) {
      // Each step is bounded.
    }
    return this.pass.report;
  }

  /** One run of the script. @returns whether there are more. @throws as PartitionWalk does */
  private async step(): Promise<boolean> {
    if (this.walk.isDone) {
      this.pass = newPass();
      this.walk.beginAll(this.redis.partitions);
    }
    await this.walk.step();
    if (!this.walk.isDone) {
      return true;
    }
    // A walk that has left a partition out does not know how many tenants are near their limits.
    this.limits.reportNearLimits(this.pass.near);
    return false;
  }

  private async examine(tag: string, [tenant, walkedMs, walkedId, tally]: Place): Promise<Place | undefined> {
    const { trace, report, near } = this.pass;
    const reply = await this.redis.scripts.call(
      'reconcile',
      { tenantIndex: tenantIndexKey(tag) },
      {
        tenant,
        walkedMs,
        walkedId,
        tally,
        examine: EXAMINE,
        retentionMs: this.config.auditRetentionMs,
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
      this.counts.reconciled.inc({ found });
      this.logger.warn({ reservation, found }, 'restored a live reservation to its deadline index');
      report[found === 'MISSING' ? 'missing' : 'misplaced'] += 1;
    }
    return reply.tenant === undefined
      ? undefined
      : [reply.tenant, reply.walkedMs ?? '', reply.walkedId ?? '', reply.tally ?? ''];
  }

  private tell(): void {
    const { report } = this.pass;
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
  }
}

function newPass(): Pass {
  return {
    began: performance.now(),
    trace: `${randomBytes(16).toString('hex')}-01`,
    report: { examined: 0, missing: 0, misplaced: 0, recounted: 0 },
    near: [],
  };
}

function pauseMs(): number {
  return INTERVAL_MS + Math.random() * JITTER_MS;
}
