import { Injectable, Module } from '@nestjs/common';
import {
  type LabelledCounter,
  type LabelledHistogram,
  MetricsModule,
  MetricsRegistry,
} from '../telemetry/index.js';

/** In seconds: from a quarter of the shortest sleep of the sweeper to a minute, by which readiness has long failed. */
const LATENESS_BUCKETS = [0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

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

  constructor(metrics: MetricsRegistry) {
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
      help: 'Candidates judged, by outcome: EXPIRED, SKIP, NOT_FOUND, QUARANTINED, ERROR. The detail tells which skip.',
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
  outcome(source: 'sweep' | 'access' | 'cleanup', outcome: ExpiryOutcome, nowMs = 0): void {
    const { word, detail = '', secondDetail = '' } = outcome;
    this.outcomes.inc({
      source,
      outcome: word,
      detail: word === 'SKIP' || word === 'QUARANTINED' ? detail : 'none',
    });
    if (word === 'EXPIRED') {
      this.expired.inc({ tenant: detail });
      // How long a hold waited for an operator says nothing about the sweep.
      if (source !== 'cleanup') {
        this.lateness.observe(Math.max(0, nowMs - Number(secondDetail)) / 1000);
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

@Module({ imports: [MetricsModule], providers: [ExpiryMetrics], exports: [ExpiryMetrics] })
export class ExpiryMetricsModule {}
