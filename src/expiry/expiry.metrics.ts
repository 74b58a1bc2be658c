import { Injectable } from '@nestjs/common';
import {
  type LabelledCounter,
  type LabelledGauge,
  type LabelledHistogram,
  MaintenanceMetrics,
  MetricsRegistry,
} from '../telemetry/index.js';

/** In seconds: from a quarter of the shortest sleep of the sweeper to a minute, by which readiness has long failed. */
export const LATENESS_BUCKETS = [0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

/** An outcome of lua/lib/expiry.lua in a script's reply. */
export interface ExpiryOutcome {
  readonly word: string;
  readonly detail?: string;
  readonly secondDetail?: string;
}

/** Counts expiries from every source: the sweeper, operations that find an overdue hold, and operators' cleanups. */
@Injectable()
export class ExpiryMetrics {
  private readonly expired: LabelledCounter;
  private readonly quarantined: LabelledCounter;
  private readonly outcomes: LabelledCounter;
  private readonly lateness: LabelledHistogram;
  private readonly decisions: LabelledCounter;

  constructor(private readonly metrics: MetricsRegistry) {
    this.expired = metrics.counter({
      name: 'cycles_reservations_expired_total',
      help: 'Reservations that expired and gave their hold back.',
      labels: ['tenant'],
    });
    this.quarantined = metrics.counter({
      name: 'cycles_reservations_quarantined_total',
      help: 'Reservations whose record cannot be settled, taken out of the sweep for an operator.',
      labels: ['tenant', 'reason'],
    });
    this.outcomes = metrics.counter({
      name: 'holdfast_expiry_outcomes_total',
      help: 'Candidates judged, by outcome: EXPIRED, SKIP, NOT_FOUND, QUARANTINED, ERROR. The detail is the reason of a skip.',
      labels: ['source', 'outcome', 'detail'],
    });
    this.lateness = metrics.histogram({
      name: 'holdfast_expiry_lateness_seconds',
      help: 'How long after its reclaim deadline a hold was given back.',
      buckets: LATENESS_BUCKETS,
    });
    this.decisions = metrics.counter({
      name: 'holdfast_quarantine_decisions_total',
      help: "Operators' decisions on reservations in quarantine, and what came of them.",
      labels: ['action', 'outcome'],
    });
  }

  /** Counts one outcome of the expiry transition. @param nowMs Redis' time of the transition */
  outcome(source: 'sweep' | 'access' | 'cleanup' | 'clock', outcome: ExpiryOutcome, nowMs = 0): void {
    const { word, detail = '', secondDetail = '' } = outcome;
    this.outcomes.inc({
      source,
      outcome: word,
      detail: word === 'SKIP' || word === 'QUARANTINED' ? detail : 'none',
    });
    if (word === 'EXPIRED') {
      this.expired.inc({ tenant: detail });
      this.metrics.activity.add('expirations');
      // How long a hold waited for an operator, or for a test clock, says nothing about the sweep.
      if (source !== 'cleanup' && source !== 'clock') {
        const lateS = Math.max(0, nowMs - Number(secondDetail)) / 1000;
        this.lateness.observe(lateS);
        const bucket = LATENESS_BUCKETS.findIndex((bound) => lateS <= bound);
        this.metrics.activity.add(`late_${bucket === -1 ? LATENESS_BUCKETS.length : bucket}`);
      }
    } else if (word === 'QUARANTINED') {
      this.quarantined.inc({ tenant: secondDetail, reason: detail });
    }
  }

  candidateFailed(): void {
    this.outcomes.inc({ source: 'sweep', outcome: 'ERROR', detail: 'none' });
  }

  decided(action: 'retry' | 'release', outcome: string): void {
    this.decisions.inc({ action, outcome });
  }
}

const JOB = 'reservation_expiry';

/** The state of an instance's sweep at the end of a turn. */
export interface SweepFigures {
  readonly leases: number;
  readonly instances: number;
  readonly backlog: number;
  readonly oldestDueMs: number;
  readonly quarantined: number;
  readonly awaitingCleanup: number;
  readonly oldestAwaitingMs: number;
}

/** Metrics of the sweeper itself. Outcomes of holds are in ExpiryMetrics. */
@Injectable()
export class SweepMetrics {
  private readonly lastSuccess: LabelledGauge;
  private readonly pages: LabelledCounter;
  private readonly cuts: LabelledCounter;
  private readonly late: LabelledCounter;
  private readonly pauses: LabelledCounter;
  private readonly leaseChanges: LabelledCounter;
  private readonly restarts: LabelledCounter;
  private readonly figures: Readonly<Record<keyof SweepFigures, LabelledGauge>>;

  constructor(
    private readonly metrics: MetricsRegistry,
    private readonly maintenance: MaintenanceMetrics,
  ) {
    this.lastSuccess = metrics.gauge({
      name: 'holdfast_sweep_last_success_timestamp_seconds',
      help: 'When the last sweep without a failure ended, by the time of Redis.',
      acrossWorkers: 'min',
    });
    this.pages = metrics.counter({
      name: 'holdfast_sweep_pages_total',
      help: 'Pages of due holds that were read.',
    });
    this.cuts = metrics.counter({
      name: 'holdfast_sweep_cut_total',
      help: 'Sweeps that their time budget ended before everything due was judged.',
    });
    this.late = metrics.counter({
      name: 'holdfast_sweep_late_total',
      help: 'Sweeps that found a hold more than 250 ms after its deadline, and then did not make way for requests.',
    });
    this.pauses = metrics.counter({
      name: 'holdfast_sweep_pauses_total',
      help: 'Pauses of sweeps that left time to requests.',
    });
    this.leaseChanges = metrics.counter({
      name: 'holdfast_sweep_lease_changes_total',
      help: 'Leases of partitions that this instance took, lost to another, or let go.',
      labels: ['change'],
    });
    this.restarts = metrics.counter({
      name: 'holdfast_sweep_restarts_total',
      help: 'Times that the watchdog found the sweep stuck and restarted it.',
    });
    const gauge = (name: string, help: string, acrossWorkers: 'sum' | 'max' = 'sum'): LabelledGauge =>
      metrics.gauge({ name, help, acrossWorkers });
    this.figures = {
      leases: gauge('holdfast_sweep_leases_held', 'Partitions that this instance sweeps.'),
      instances: gauge(
        'holdfast_sweep_instances',
        'Instances that share the sweep, as this one sees it.',
        'max',
      ),
      backlog: gauge(
        'holdfast_sweep_backlog',
        'Holds in the partitions of this instance that are due and not yet expired.',
      ),
      oldestDueMs: gauge(
        'holdfast_sweep_oldest_due_seconds',
        'How long the oldest of them has been due.',
        'max',
      ),
      quarantined: gauge(
        'holdfast_quarantine_entries',
        'Reservations in quarantine, in the partitions of this instance.',
      ),
      awaitingCleanup: gauge(
        'holdfast_cleanup_awaiting',
        'Reservations under MANUAL_CLEANUP whose grace is over, in the partitions of this instance.',
      ),
      oldestAwaitingMs: gauge(
        'holdfast_cleanup_oldest_seconds',
        'How long ago the grace of the oldest of them ended.',
        'max',
      ),
    };
  }

  /** Read at each scrape, so that it also grows while the sweep is stuck. */
  observeAge(readMs: () => number): void {
    const spec = {
      name: 'holdfast_sweep_age_seconds',
      help: 'How long ago the last sweep without a failure ended.',
      acrossWorkers: 'max',
    } as const;
    this.metrics.observedGauge(spec, () => readMs() / 1000);
  }

  succeeded(redisNowMs: number): void {
    this.lastSuccess.set(redisNowMs / 1000);
  }

  show(figures: SweepFigures): void {
    for (const [name, gauge] of Object.entries(this.figures)) {
      const value = figures[name as keyof SweepFigures];
      gauge.set(name.endsWith('Ms') ? value / 1000 : value);
    }
  }

  pageRead(): void {
    this.pages.inc();
  }

  passCut(): void {
    this.cuts.inc();
  }

  foundLate(): void {
    this.late.inc();
  }

  paused(): void {
    this.pauses.inc();
  }

  leaseChanged(change: 'taken' | 'lost' | 'released'): void {
    this.leaseChanges.inc({ change });
    if (change === 'lost') {
      this.maintenance.leaseFailed(JOB, 'lease_lost');
    }
  }

  leaseFailed(): void {
    this.maintenance.leaseFailed(JOB, 'lease_error');
  }

  restarted(): void {
    this.restarts.inc();
  }
}
