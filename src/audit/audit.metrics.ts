import type { MetricsTable } from '../telemetry/index.js';

export const AUDIT_METRICS = {
  changes: {
    kind: 'counter',
    name: 'holdfast_governance_changes_total',
    help: 'Requests of the governance plane and for operators that are not reads, by operation and outcome: OK or the error code.',
    labels: ['operation', 'outcome'],
  },
  writes: {
    kind: 'counter',
    name: 'cycles_admin_audit_writes_total',
    help: 'Rows of the audit log not written by scripts, and of the request log (path_class refused): written, lost through an error or a full queue (error, dropped), or only counted in a summary row (sampled-out).',
    labels: ['path_class', 'outcome'],
  },
  displaced: {
    kind: 'counter',
    name: 'holdfast_audit_rows_displaced_total',
    help: 'Audit rows of reads and missing credentials removed before the end of their retention because their log was full.',
  },
  pagesCut: {
    kind: 'counter',
    name: 'holdfast_audit_pages_cut_total',
    help: 'Pages of the audit log that ended early because so many rows did not match.',
  },
  // Results of verifying the ledger, for alerts. Without labels, so that even the first drift is an increase from 0.
  verifiedBudgets: {
    kind: 'counter',
    name: 'holdfast_verify_budgets_total',
    help: 'Budgets recomputed from their reservations.',
  },
  drifts: {
    kind: 'counter',
    name: 'holdfast_verify_drift_total',
    help: 'Budgets that did not match their reservations, and reservations that did not match the journal, counted at each verification.',
  },
  unreadable: {
    kind: 'counter',
    name: 'holdfast_verify_unreadable_total',
    help: 'Live reservations with unreadable records, counted at each verification.',
  },
} as const satisfies MetricsTable;

/** The maintenance of ended reservations' records, their index entries, old events and audit rows. */
export const RETENTION_METRICS = {
  examined: {
    kind: 'counter',
    name: 'holdfast_index_entries_examined_total',
    help: 'Index entries whose records were checked.',
  },
  passed: {
    kind: 'counter',
    name: 'holdfast_journal_entries_total',
    help: 'Entries of the journal that packing has passed: ends of reservations and direct debits.',
  },
  packed: {
    kind: 'counter',
    name: 'holdfast_records_packed_total',
    help: 'Records of ended reservations that were packed.',
  },
  lost: {
    kind: 'counter',
    name: 'holdfast_journal_entries_lost_total',
    help: 'Entries of the journal removed before they were archived, because too many waited for the archiver.',
  },
  notPacked: {
    kind: 'counter',
    name: 'holdfast_records_not_packed_total',
    help: 'Records that could not be packed: gone, or not in the expected form.',
  },
  toPack: {
    kind: 'gauge',
    name: 'holdfast_records_to_pack',
    help: 'Entries of the journal that packing has not passed: ended reservations whose records are still to be packed, and direct debits.',
    acrossWorkers: 'max',
  },
  cuts: {
    kind: 'counter',
    name: 'holdfast_maintenance_cut_total',
    help: 'Runs that ended at their time budget before all work was done.',
    labels: ['job'],
  },
  events: {
    kind: 'counter',
    name: 'holdfast_events_trimmed_total',
    help: 'Events removed after their retention.',
  },
  rows: {
    kind: 'counter',
    name: 'holdfast_audit_rows_trimmed_total',
    help: 'Rows of the audit log removed after their retention.',
  },
  keys: {
    kind: 'counter',
    name: 'holdfast_api_keys_expired_total',
    help: 'API keys whose expiry was recorded as an event.',
  },
  heldLogs: {
    kind: 'gauge',
    name: 'holdfast_event_logs_held',
    help: 'Partitions that keep events beyond their retention because no dispatcher has read them.',
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;
