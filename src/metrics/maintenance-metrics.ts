import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter, type LabelledHistogram } from './metrics-registry.js';

const DURATION_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 30];

/** Runs of scheduled work, under the names that existing dashboards know, and what is tidied up beside other work too. */
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

  ended(job: string, outcome: 'success' | 'failed', durationMs: number): void {
    this.runs.inc({ job, outcome });
    this.durations.observe(durationMs / 1000, { job, outcome });
  }

  /** Something that befell a job beside the outcome of a run. */
  befell(job: string, what: 'lease_lost' | 'lease_error'): void {
    this.runs.inc({ job, outcome: what });
  }

  /** Index entries were removed that stood for nothing any more. */
  trimmedEntries(count: number): void {
    this.trimmed.inc({}, count);
  }
}
