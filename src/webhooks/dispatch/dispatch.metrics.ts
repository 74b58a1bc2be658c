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
const OF_EVENT = ['tenant', 'event_type'];

function countersOf(metrics: MetricsRegistry) {
  const counter = (name: string, help: string, labels: readonly string[] = []): LabelledCounter =>
    metrics.counter({ name, help, labels });
  return {
    attempts: counter('cycles_webhook_delivery_attempts_total', 'Attempts to deliver an event.', OF_EVENT),
    successes: counter('cycles_webhook_delivery_success_total', 'Deliveries that an endpoint accepted.', [
      ...OF_EVENT,
      'status_code_family',
    ]),
    failures: counter(
      'cycles_webhook_delivery_failed_total',
      'Attempts that failed, and deliveries given up without one.',
      [...OF_EVENT, 'reason'],
    ),
    retries: counter(
      'cycles_webhook_delivery_retried_total',
      'Failed attempts after which another one was planned.',
      OF_EVENT,
    ),
    retriesNotStored: counter(
      'holdfast_webhook_retries_not_stored_total',
      'Retries that Redis could not store; the deliveries stay first in their queues and are attempted again.',
    ),
    postponed: counter(
      'holdfast_webhook_attempts_postponed_total',
      'Attempts that were not begun because too many host names were being looked up; they are made soon.',
    ),
    stale: counter(
      'cycles_webhook_delivery_stale_total',
      'Deliveries that were too old when their turn came.',
      ['tenant'],
    ),
    deadLetters: counter(
      'holdfast_webhook_dead_letters_total',
      'Deliveries that failed for good: after their last attempt, or too old for one.',
    ),
    disabled: counter(
      'cycles_webhook_subscription_auto_disabled_total',
      'Subscriptions that failed too often in a row.',
      ['tenant', 'reason'],
    ),
    queued: counter('cycles_admin_webhook_dispatched_total', 'Deliveries queued for an event, or not.', [
      'result',
    ]),
    queueingPauses: counter(
      'holdfast_webhook_queueing_pauses_total',
      'Pauses in which the queueing of deliveries left Redis to the ledger.',
    ),
    failurePauses: counter(
      'holdfast_webhook_failure_pauses_total',
      'Pauses after failed attempts: before the next first attempt of a queue, or before another retry takes the place.',
      ['for'],
    ),
    leaseChanges: counter(
      'holdfast_dispatch_lease_changes_total',
      'Leases of partitions that this instance took, lost to another, or let go.',
      ['change'],
    ),
    restarts: counter(
      'holdfast_dispatch_restarts_total',
      'Times that the watchdog found the dispatch stuck and restarted it.',
    ),
    recoveries: counter(
      'holdfast_dispatch_left_over_total',
      'Retries made more than half a minute late, and failures that another process had left uncounted.',
      ['kind'],
    ),
  };
}

function gaugesOf(metrics: MetricsRegistry) {
  const gauge = (name: string, help: string, labels: readonly string[] = []): LabelledGauge =>
    metrics.gauge({ name, help, labels });
  return {
    partitions: gauge('holdfast_dispatch_leases_held', 'Partitions whose events this instance dispatches.'),
    lag: gauge(
      'holdfast_event_log_lag',
      'Events in the partitions of this instance that are not yet queued for their subscribers.',
    ),
    oldest: metrics.gauge({
      name: 'holdfast_oldest_undelivered_event_seconds',
      help: 'Age of the oldest event in the partitions of this instance that waits to be read or for its first attempt.',
      acrossWorkers: 'max',
    }),
    inFlight: gauge('holdfast_webhook_attempts_in_flight', 'Attempts that this instance is making.'),
    waiting: gauge(
      'holdfast_webhook_deliveries_waiting',
      'Deliveries that wait, in the partitions of this instance.',
      ['for'],
    ),
  };
}

/** The deliveries' outcomes under the names that existing dashboards know, and how the dispatch itself is doing. */
@Injectable()
export class DispatchMetrics {
  readonly counters: ReturnType<typeof countersOf>;
  readonly gauges: ReturnType<typeof gaugesOf>;
  private readonly latency: LabelledHistogram;
  private readonly untilFirst: LabelledHistogram;

  constructor(
    metrics: MetricsRegistry,
    readonly maintenance: MaintenanceMetrics,
  ) {
    this.counters = countersOf(metrics);
    this.gauges = gaugesOf(metrics);
    this.latency = metrics.histogram({
      name: 'cycles_webhook_delivery_latency_seconds',
      help: 'How long attempts took.',
      labels: [...OF_EVENT, 'outcome'],
      buckets: LATENCY_BUCKETS,
    });
    this.untilFirst = metrics.histogram({
      name: 'holdfast_webhook_first_attempt_delay_seconds',
      help: 'From the event to the start of its first attempt.',
      buckets: FIRST_ATTEMPT_BUCKETS,
    });
  }

  /** @param sinceEventMs of a first attempt */
  attemptStarted(delivery: Delivery, sinceEventMs: number | undefined): void {
    this.counters.attempts.inc(labelsOf(delivery));
    if (sinceEventMs !== undefined) {
      this.untilFirst.observe(Math.max(0, sinceEventMs) / 1000);
    }
  }

  countVerdict(delivery: Delivery, { outcome, durationMs, status = 0, reason }: Verdict): void {
    const labels = labelsOf(delivery);
    const isSuccess = outcome === 'SUCCESS';
    if (isSuccess) {
      this.counters.successes.inc({ ...labels, status_code_family: `${Math.floor(status / 100)}xx` });
    } else {
      this.counters.failures.inc({ ...labels, reason });
    }
    if (durationMs !== undefined) {
      this.latency.observe(durationMs / 1000, { ...labels, outcome: isSuccess ? 'success' : 'failure' });
    }
    if (outcome === 'RETRYING') {
      this.counters.retries.inc(labels);
    }
    if (reason === 'stale') {
      this.counters.stale.inc({ tenant: 'UNKNOWN' });
    }
  }

  leaseChanged(change: 'taken' | 'lost' | 'released'): void {
    this.counters.leaseChanges.inc({ change });
    if (change === 'lost') {
      this.maintenance.leaseFailed(JOB, 'lease_lost');
    }
  }
}

/** The tenant and the type of the event that is delivered. */
function labelsOf({ tenant, event }: Delivery): { tenant: string; event_type: string } {
  return { tenant, event_type: event?.signed.eventType ?? '' };
}
