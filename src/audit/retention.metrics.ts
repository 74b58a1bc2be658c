import { Injectable } from '@nestjs/common';
import {
  type LabelledCounter,
  type LabelledGauge,
  MaintenanceMetrics,
  MetricsRegistry,
} from '../telemetry/index.js';

export type RetentionJob =
  'audit_retention' | 'record_packing' | 'event_retention' | 'audit_log_retention' | 'api_key_expiry';

/** Counts the maintenance of ended reservations' records, their index entries, old events and audit rows. */
@Injectable()
export class RetentionMetrics {
  private readonly examined: LabelledCounter;
  private readonly packed: LabelledCounter;
  private readonly unpacked: LabelledCounter;
  private readonly waiting: LabelledGauge;
  private readonly cuts: LabelledCounter;
  private readonly events: LabelledCounter;
  private readonly rows: LabelledCounter;
  private readonly held: LabelledGauge;
  private readonly keys: LabelledCounter;

  constructor(
    metrics: MetricsRegistry,
    private readonly maintenance: MaintenanceMetrics,
  ) {
    this.examined = metrics.counter({
      name: 'holdfast_index_entries_examined_total',
      help: 'Index entries whose records were checked.',
    });
    this.packed = metrics.counter({
      name: 'holdfast_records_packed_total',
      help: 'Records of ended reservations that were packed.',
    });
    this.unpacked = metrics.counter({
      name: 'holdfast_records_not_packed_total',
      help: 'Records that could not be packed: gone, or not in the expected form.',
    });
    this.waiting = metrics.gauge({
      name: 'holdfast_records_to_pack',
      help: 'Ended reservations whose records are still to be packed.',
      acrossWorkers: 'max',
    });
    this.cuts = metrics.counter({
      name: 'holdfast_maintenance_cut_total',
      help: 'Runs that ended at their time budget before all work was done.',
      labels: ['job'],
    });
    this.events = metrics.counter({
      name: 'holdfast_events_trimmed_total',
      help: 'Events removed after their retention.',
    });
    this.rows = metrics.counter({
      name: 'holdfast_audit_rows_trimmed_total',
      help: 'Rows of the audit log removed after their retention.',
    });
    this.keys = metrics.counter({
      name: 'holdfast_api_keys_expired_total',
      help: 'API keys whose expiry was recorded as an event.',
    });
    this.held = metrics.gauge({
      name: 'holdfast_event_logs_held',
      help: 'Partitions that keep events beyond their retention because no dispatcher has read them.',
      acrossWorkers: 'max',
    });
  }

  cut(job: RetentionJob): void {
    this.cuts.inc({ job });
  }

  looked(examined: number, removed: number): void {
    this.examined.inc({}, examined);
    this.maintenance.trimmedEntries(removed);
  }

  pack(examined: number, packed: number): void {
    this.packed.inc({}, packed);
    this.unpacked.inc({}, examined - packed);
  }

  waitingToPack(count: number): void {
    this.waiting.set(count);
  }

  trimmedEvents(count: number): void {
    this.events.inc({}, count);
  }

  trimmedRows(count: number): void {
    this.rows.inc({}, count);
  }

  heldLogs(count: number): void {
    this.held.set(count);
  }

  expiredKeys(count: number): void {
    this.keys.inc({}, count);
  }
}
