import { Injectable } from '@nestjs/common';
import {
  type LabelledCounter,
  type LabelledGauge,
  type LabelledHistogram,
  MaintenanceMetrics,
  MetricsRegistry,
} from '../../telemetry/index.js';
import type { Delivery, Verdict } from './delivery.js';

const JOB = 'webhook_dispatch';
const LATENCY_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const FIRST_ATTEMPT_BUCKETS = [0.025, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600];

/** What an instance's dispatch is like at the end of a beat. */
export interface DispatchFigures {
  readonly partitions: number;
  readonly lagEvents: number;
  readonly oldestMs: number;
  readonly waitingForFirst: number;
  readonly waitingForRetry: number;
  readonly inFlight: number;
}

/** The deliveries' outcomes under the names that existing dashboards know, and how the dispatch itself is doing. */
@Injectable()
export class DispatchMetrics {
  readonly retriesNotStored: LabelledCounter;
  readonly postponed: LabelledCounter;
  readonly deadLetters: LabelledCounter;
  readonly disabled: LabelledCounter;
  readonly queued: LabelledCounter;
  readonly queueingPauses: LabelledCounter;
  readonly restarts: LabelledCounter;
  readonly recoveries: LabelledCounter;
  private readonly attempts: LabelledCounter;
  private readonly successes: LabelledCounter;
  private readonly failures: LabelledCounter;
  private readonly retries: LabelledCounter;
  private readonly stale: LabelledCounter;
  private readonly leaseChanges: LabelledCounter;
  private readonly latency: LabelledHistogram;
  private readonly untilFirst: LabelledHistogram;
  private readonly waiting: LabelledGauge;
  private readonly figures: Readonly<
    Record<'partitions' | 'lagEvents' | 'oldest' | 'inFlight', LabelledGauge>
  >;

  constructor(
    metrics: MetricsRegistry,
    private readonly maintenance: MaintenanceMetrics,
  ) {
    const counter = (name: string, help: string, labels: string[] = []): LabelledCounter =>
      metrics.counter({ name, help, labels });
    const gauge = (name: string, help: string, labels: string[] = []): LabelledGauge =>
      metrics.gauge({ name, help, labels });
    const labels = ['tenant', 'event_type'];
    this.attempts = counter(
      'cycles_webhook_delivery_attempts_total',
      'Attempts to deliver an event.',
      labels,
    );
    this.successes = counter(
      'cycles_webhook_delivery_success_total',
      'Deliveries that an endpoint accepted.',
      [...labels, 'status_code_family'],
    );
    this.failures = counter(
      'cycles_webhook_delivery_failed_total',
      'Attempts that failed, and deliveries given up without one.',
      [...labels, 'reason'],
    );
    this.retries = counter(
      'cycles_webhook_delivery_retried_total',
      'Failed attempts after which another one was planned.',
      labels,
    );
    this.retriesNotStored = counter(
      'holdfast_webhook_retries_not_stored_total',
      'Retries that Redis could not store; the deliveries stay first in their queues and are attempted again.',
    );
    this.postponed = counter(
      'holdfast_webhook_attempts_postponed_total',
      'Attempts that were not begun because too many host names were being looked up; they are made soon.',
    );
    this.stale = counter(
      'cycles_webhook_delivery_stale_total',
      'Deliveries that were too old when their turn came.',
      ['tenant'],
    );
    this.deadLetters = counter(
      'holdfast_webhook_dead_letters_total',
      'Deliveries that failed for good: after their last attempt, or too old for one.',
    );
    this.disabled = counter(
      'cycles_webhook_subscription_auto_disabled_total',
      'Subscriptions that failed too often in a row.',
      ['tenant', 'reason'],
    );
    this.queued = counter(
      'cycles_admin_webhook_dispatched_total',
      'Deliveries queued for an event, or not.',
      ['result'],
    );
    this.queueingPauses = counter(
      'holdfast_webhook_queueing_pauses_total',
      'Pauses in which the queueing of deliveries left Redis to the ledger.',
    );
    this.leaseChanges = counter(
      'holdfast_dispatch_lease_changes_total',
      'Leases of partitions that this instance took, lost to another, or let go.',
      ['change'],
    );
    this.restarts = counter(
      'holdfast_dispatch_restarts_total',
      'Times that the watchdog found the dispatch standing still and started it anew.',
    );
    this.recoveries = counter(
      'holdfast_dispatch_left_over_total',
      'Retries made more than half a minute late, and failures that another process had left uncounted.',
      ['kind'],
    );
    this.latency = metrics.histogram({
      name: 'cycles_webhook_delivery_latency_seconds',
      help: 'How long attempts took.',
      labels: [...labels, 'outcome'],
      buckets: LATENCY_BUCKETS,
    });
    this.untilFirst = metrics.histogram({
      name: 'holdfast_webhook_first_attempt_delay_seconds',
      help: 'From the event to the start of its first attempt.',
      buckets: FIRST_ATTEMPT_BUCKETS,
    });
    this.waiting = gauge(
      'holdfast_webhook_deliveries_waiting',
      'Deliveries that wait, in the partitions of this instance.',
      ['for'],
    );
    this.figures = {
      partitions: gauge('holdfast_dispatch_leases_held', 'Partitions whose events this instance dispatches.'),
      lagEvents: gauge(
        'holdfast_event_log_lag',
        'Events in the partitions of this instance that are not yet queued for their subscribers.',
      ),
      oldest: gauge(
        'holdfast_oldest_undelivered_event_seconds',
        'Age of the oldest event in the partitions of this instance that waits to be read or for its first attempt.',
      ),
      inFlight: gauge('holdfast_webhook_attempts_in_flight', 'Attempts that this instance is making.'),
    };
  }

  /** @param sinceEventMs of a first attempt */
  attemptStarted(delivery: Delivery, sinceEventMs: number | undefined): void {
    this.attempts.inc(labelsOf(delivery));
    if (sinceEventMs !== undefined) {
      this.untilFirst.observe(Math.max(0, sinceEventMs) / 1000);
    }
  }

  countVerdict(delivery: Delivery, verdict: Verdict): void {
    const labels = labelsOf(delivery);
    switch (verdict.outcome) {
      case 'SUCCESS':
        this.successes.inc({ ...labels, status_code_family: `${Math.floor(verdict.status / 100)}xx` });
        this.latency.observe(verdict.durationMs / 1000, { ...labels, outcome: 'success' });
        break;
      case 'RETRYING':
      case 'FAILED': {
        const { reason, durationMs } = verdict.failure;
        if (verdict.outcome === 'RETRYING') {
          this.retries.inc(labels);
        }
        this.failures.inc({ ...labels, reason });
        this.latency.observe(durationMs / 1000, { ...labels, outcome: 'failure' });
        break;
      }
      case 'GIVEN_UP':
        this.failures.inc({ ...labels, reason: verdict.reason });
        if (verdict.reason === 'stale') {
          this.stale.inc({ tenant: 'UNKNOWN' });
        }
    }
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

  /** Index entries of deliveries whose records are gone. */
  trimmedEntries(count: number): void {
    this.maintenance.trimmedEntries(count);
  }

  show(figures: DispatchFigures): void {
    this.figures.partitions.set(figures.partitions);
    this.figures.lagEvents.set(figures.lagEvents);
    this.figures.oldest.set(figures.oldestMs / 1000);
    this.figures.inFlight.set(figures.inFlight);
    this.waiting.set(figures.waitingForFirst, { for: 'first_attempt' });
    this.waiting.set(figures.waitingForRetry, { for: 'retry' });
  }
}

/** The tenant and the type of the event that is delivered. */
function labelsOf({ tenant, event }: Delivery): { tenant: string; event_type: string } {
  return { tenant, event_type: event?.signed.eventType ?? '' };
}
