import { getHeapStatistics } from 'node:v8';
import type { OnApplicationShutdown } from '@nestjs/common';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { HoldfastConfig } from '../config/index.js';
import { instrumentOf, type Instruments, type MetricsTable } from './metrics-table.js';

/** What the console shows per second. `late_<n>` counts expirations by the bucket of their lateness. */
export type Activity = 'reserves' | 'commits' | 'denials' | 'expirations' | `late_${number}`;

/**
 * What this instance did since it was last asked. Counting is a few nanoseconds; src/console/activity-recorder.ts adds the counts of
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

const PROCESS_METRICS = {
  heapLimit: {
    name: 'nodejs_heap_size_limit_bytes',
    help: 'Heap at which Node.js gives up; see --max-old-space-size.',
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;

/** The heap limit and the event loop belong to each worker by itself, so an alert must see the worker that is worst off. */
const SHOWN_OF_THE_WORST_WORKER = [
  'nodejs_heap_size_used_bytes',
  'nodejs_heap_size_total_bytes',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p90_seconds',
  'nodejs_eventloop_lag_p99_seconds',
];

/**
 * The application's metrics. CYCLES_METRICS_TENANT_TAG_ENABLED=false drops the label `tenant` from all of them. A blank label
 * value becomes `UNKNOWN`, as existing dashboards expect.
 */
export class MetricsRegistry implements OnApplicationShutdown {
  readonly registry = new Registry();
  readonly activity = new ActivityCounts();
  private readonly known = new Map<MetricsTable, object>();
  private readonly dropTenant: boolean;

  constructor(config: Pick<HoldfastConfig, 'metricsTenantLabel'>) {
    this.dropTenant = !config.metricsTenantLabel;
    this.registry.setDefaultLabels({ application: APPLICATION });
  }

  /** What counts in a table's metrics. They are registered when they are first asked for. */
  of<T extends MetricsTable>(table: T): Instruments<T> {
    const known = this.known.get(table) ?? this.register(table);
    this.known.set(table, known);
    return known as Instruments<T>;
  }

  private register(table: MetricsTable): object {
    return Object.fromEntries(
      Object.entries(table).map(([name, spec]) => [
        name,
        instrumentOf(spec, this.kept(spec.labels ?? []), this.registry),
      ]),
    );
  }

  onApplicationShutdown(): void {
    this.registry.clear();
  }

  private kept(labels: readonly string[]): string[] {
    return this.dropTenant ? labels.filter((label) => label !== 'tenant') : [...labels];
  }
}

/** Adds the metrics of the process itself: memory, processor time, event loop. */
export function withProcessMetrics(metrics: MetricsRegistry): MetricsRegistry {
  const { registry } = metrics;
  collectDefaultMetrics({ register: registry });
  for (const name of SHOWN_OF_THE_WORST_WORKER) {
    Object.assign(registry.getSingleMetric(name) ?? {}, { aggregator: 'max' });
  }
  metrics.of(PROCESS_METRICS).heapLimit.readFrom(() => getHeapStatistics().heap_size_limit);
  return metrics;
}
