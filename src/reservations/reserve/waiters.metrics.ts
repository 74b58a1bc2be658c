import { type LabelledCounter, type LabelledHistogram, type MetricsRegistry } from '../../telemetry/index.js';

/** How a wait ended. */
export type WaitOutcome =
  'granted' | 'timed_out' | 'refused' | 'client_gone' | 'drained' | 'failed' | 'too_many';

const BUCKETS_S = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30];

/** Counts reserves that wait for funds. */
export class WaiterMetrics {
  private readonly waits: LabelledCounter;
  private readonly wakeUps: LabelledCounter;
  private readonly seconds: LabelledHistogram;
  private readonly failures: LabelledCounter;

  constructor(metrics: MetricsRegistry, waiting: () => number) {
    metrics.observedGauge(
      { name: 'holdfast_reserve_waiters', help: 'Reserves that wait for funds now.' },
      waiting,
    );
    this.waits = metrics.counter({
      name: 'holdfast_reserve_waits_total',
      help: 'Reserves that waited for funds, and those that would have but were too many, by outcome.',
      labels: ['outcome'],
    });
    this.wakeUps = metrics.counter({
      name: 'holdfast_reserve_wake_ups_total',
      help: 'Times that a waiting reserve was told to try again: by the script that freed funds, or by the renewal of its place after a lost message.',
      labels: ['by'],
    });
    this.seconds = metrics.histogram({
      name: 'holdfast_reserve_wait_seconds',
      help: 'How long reserves waited for funds. Durations of requests do not include it.',
      buckets: BUCKETS_S,
    });
    this.failures = metrics.counter({
      name: 'holdfast_reserve_place_failures_total',
      help: 'Calls that failed to renew places of waiting reserves, which is tried again, or to give one up, which then lapses.',
      labels: ['call'],
    });
  }

  refusedAtOnce(outcome: 'too_many' | 'drained'): void {
    this.waits.inc({ outcome });
  }

  ended(outcome: WaitOutcome, waitedMs: number): void {
    this.waits.inc({ outcome });
    this.seconds.observe(waitedMs / 1000);
  }

  woken(by: 'freed' | 'renewal'): void {
    this.wakeUps.inc({ by });
  }

  failed(call: 'renew' | 'leave'): void {
    this.failures.inc({ call });
  }
}
