import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter, type LabelledGauge } from '../metrics/index.js';

export type RetentionJob = 'audit_retention' | 'record_packing';

/** What becomes of ended reservations' records and of the index entries that name them. */
@Injectable()
export class RetentionMetrics {
  private readonly runs: LabelledCounter;
  private readonly trimmed: LabelledCounter;
  private readonly examined: LabelledCounter;
  private readonly packed: LabelledCounter;
  private readonly unpacked: LabelledCounter;
  private readonly waiting: LabelledGauge;
  private readonly cuts: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.runs = metrics.counter({ name: 'cycles_maintenance_runs_total', help: 'Runs of scheduled work by outcome.', labels: ['job', 'outcome'] });
    this.trimmed = metrics.counter({ name: 'holdfast_index_entries_trimmed_total', help: 'Index entries removed because their records are gone.' });
    this.examined = metrics.counter({ name: 'holdfast_index_entries_examined_total', help: 'Index entries whose records were looked for.' });
    this.packed = metrics.counter({ name: 'holdfast_records_packed_total', help: 'Records of ended reservations brought into their small form.' });
    this.unpacked = metrics.counter({ name: 'holdfast_records_not_packed_total', help: 'Records that kept their form: gone, or not of the expected form.' });
    this.waiting = metrics.gauge({ name: 'holdfast_records_to_pack', help: 'Ended reservations whose records are still to be packed.' });
    this.cuts = metrics.counter({ name: 'holdfast_maintenance_cut_total', help: 'Runs that their time budget ended before all was done.', labels: ['job'] });
  }

  ran(job: RetentionJob, outcome: 'success' | 'failed'): void {
    this.runs.inc({ job, outcome });
  }

  cut(job: RetentionJob): void {
    this.cuts.inc({ job });
  }

  looked(examined: number, removed: number): void {
    this.examined.inc({}, examined);
    this.trimmed.inc({}, removed);
  }

  pack(examined: number, packed: number): void {
    this.packed.inc({}, packed);
    this.unpacked.inc({}, examined - packed);
  }

  waitingToPack(count: number): void {
    this.waiting.set(count);
  }
}
