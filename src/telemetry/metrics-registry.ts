import { getHeapStatistics } from 'node:v8';
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { CONFIG, type HoldfastConfig } from '../config/index.js';

/** What the console shows per second. `late_<n>` counts expirations by the bucket of their lateness. */
export type Activity = 'reserves' | 'commits' | 'denials' | 'expirations' | `late_${number}`;

/**
 * What this instance did since it was last asked. Counting is a few nanoseconds; src/operators/activity-recorder.ts adds the counts of
 * all instances up in Redis.
 */
export class ActivityCounts {
  private counts = new Map<Activity, number>();

  add(activity: Activity, by = 1): void {
    this.counts.set(activity, (this.counts.get(activity) ?? 0) + by);
  }

  /** Returns the counts and starts over. */
  take(): ReadonlyMap<Activity, number> {
    const taken = this.counts;
    this.counts = new Map();
    return taken;
  }
}

/** The `application` label that existing dashboards select. */
export const APPLICATION = 'cycles-protocol-service';

/** The heap limit and the event loop belong to each worker by itself, so an alert must see the worker that is worst off. */
const SHOWN_OF_THE_WORST_WORKER = [
  'nodejs_heap_size_used_bytes',
  'nodejs_heap_size_total_bytes',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p90_seconds',
  'nodejs_eventloop_lag_p99_seconds',
];

export interface MetricSpec {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
}

export interface GaugeSpec extends MetricSpec {
  /** What several worker processes show together: `max` or `min` where each of them sees the same thing; by default the sum. */
  readonly acrossWorkers?: 'sum' | 'max' | 'min';
}

export type Labels = Readonly<Record<string, string | undefined>>;

export interface LabelledCounter {
  inc(labels?: Labels, by?: number): void;
}

export interface LabelledGauge {
  set(value: number, labels?: Labels): void;
}

export interface LabelledHistogram {
  observe(value: number, labels?: Labels): void;
}

/**
 * The application's metrics. CYCLES_METRICS_TENANT_TAG_ENABLED=false drops the label `tenant` from all of them. A blank label
 * value becomes `UNKNOWN`, as existing dashboards expect.
 */
@Injectable()
export class MetricsRegistry implements OnApplicationShutdown {
  readonly registry = new Registry();
  readonly activity = new ActivityCounts();
  private readonly dropTenant: boolean;

  constructor(@Inject(CONFIG) config: HoldfastConfig) {
    this.dropTenant = !config.metricsTenantLabel;
    this.registry.setDefaultLabels({ application: APPLICATION });
    collectDefaultMetrics({ register: this.registry });
    for (const name of SHOWN_OF_THE_WORST_WORKER) {
      Object.assign(this.registry.getSingleMetric(name) ?? {}, { aggregator: 'max' });
    }
    const heapLimit = {
      name: 'nodejs_heap_size_limit_bytes',
      help: 'Heap at which Node.js gives up; see --max-old-space-size.',
      acrossWorkers: 'max',
    } as const;
    this.observedGauge(heapLimit, () => getHeapStatistics().heap_size_limit);
  }

  counter({ name, help, labels = [] }: MetricSpec): LabelledCounter {
    const names = this.kept(labels);
    // Several components may count under the same name.
    const known = this.registry.getSingleMetric(name) as Counter | undefined;
    const counter = known ?? new Counter({ name, help, labelNames: names, registers: [this.registry] });
    return { inc: (values = {}, by = 1) => counter.inc(pick(names, values), by) };
  }

  gauge({ name, help, labels = [], acrossWorkers = 'sum' }: GaugeSpec): LabelledGauge {
    const names = this.kept(labels);
    const gauge = new Gauge({
      name,
      help,
      labelNames: names,
      registers: [this.registry],
      aggregator: acrossWorkers,
    });
    return { set: (value, values = {}) => gauge.set(pick(names, values), value) };
  }

  /** A gauge whose value is read at each scrape. */
  observedGauge(
    { name, help, acrossWorkers = 'sum' }: GaugeSpec,
    read: () => number | Promise<number>,
  ): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      aggregator: acrossWorkers,
      async collect() {
        this.set(await read());
      },
    });
  }

  histogram({
    name,
    help,
    labels = [],
    buckets,
  }: MetricSpec & { readonly buckets: readonly number[] }): LabelledHistogram {
    const names = this.kept(labels);
    const histogram = new Histogram({
      name,
      help,
      labelNames: names,
      buckets: [...buckets],
      registers: [this.registry],
    });
    return { observe: (value, values = {}) => histogram.observe(pick(names, values), value) };
  }

  onApplicationShutdown(): void {
    this.registry.clear();
  }

  private kept(labels: readonly string[]): string[] {
    return this.dropTenant ? labels.filter((label) => label !== 'tenant') : [...labels];
  }
}

function pick(names: readonly string[], values: Labels): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of names) {
    const value = values[name];
    result[name] = value === undefined || value === '' ? 'UNKNOWN' : value;
  }
  return result;
}

const DURATION_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 30];

/** Runs of scheduled work, under the names that existing dashboards use, and index entries removed on the way. */
@Injectable()
export class MaintenanceMetrics {
  private readonly runs: LabelledCounter;
  private readonly durations: LabelledHistogram;
  private readonly trimmed: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    const labels = ['job', 'outcome'];
    this.runs = metrics.counter({
      name: 'cycles_maintenance_runs_total',
      help: 'Runs of scheduled work by outcome.',
      labels,
    });
    this.durations = metrics.histogram({
      name: 'cycles_maintenance_duration_seconds',
      help: 'How long runs of scheduled work took.',
      labels,
      buckets: DURATION_BUCKETS,
    });
    this.trimmed = metrics.counter({
      name: 'holdfast_index_entries_trimmed_total',
      help: 'Index entries removed because their records are gone.',
    });
  }

  runEnded(job: string, outcome: 'success' | 'failed', durationMs: number): void {
    this.runs.inc({ job, outcome });
    this.durations.observe(durationMs / 1000, { job, outcome });
  }

  /** A problem with the lease of a job, counted beside the outcomes of its runs. */
  leaseFailed(job: string, problem: 'lease_lost' | 'lease_error'): void {
    this.runs.inc({ job, outcome: problem });
  }

  /** Counts removed index entries whose records no longer exist. */
  trimmedEntries(count: number): void {
    this.trimmed.inc({}, count);
  }
}
