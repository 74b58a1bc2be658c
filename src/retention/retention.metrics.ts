import type { MetricsTable } from '../telemetry/index.js';

/** The maintenance of ended reservations' records, their index entries, old events and audit rows. */
export const RETENTION_METRICS = {
  examined: {
    name: 'holdfast_index_entries_examined_total',
    help: 'Index entries whose records were checked.',
  },
  passed: {
    name: 'holdfast_journal_entries_total',
    help: 'Entries of the journal that packing has passed: ends of reservations and direct debits.',
  },
  packed: {
    name: 'holdfast_records_packed_total',
    help: 'Records of ended reservations that were packed.',
  },
  lost: {
    name: 'holdfast_journal_entries_lost_total',
    help: 'Entries of the journal removed before they were archived, because too many waited for the archiver.',
  },
  notPacked: {
    name: 'holdfast_records_not_packed_total',
    help: 'Records that could not be packed: gone, or not in the expected form.',
  },
  toPack: {
    name: 'holdfast_records_to_pack',
    help: 'Entries of the journal that packing has not passed: ended reservations whose records are still to be packed, and direct debits.',
    acrossWorkers: 'max',
  },
  cuts: {
    name: 'holdfast_maintenance_cut_total',
    help: 'Runs that ended at their time budget before all work was done.',
    labels: ['job'],
  },
  events: {
    name: 'holdfast_events_trimmed_total',
    help: 'Events removed after their retention.',
  },
  rows: {
    name: 'holdfast_audit_rows_trimmed_total',
    help: 'Rows of the audit log removed after their retention.',
  },
  keys: {
    name: 'holdfast_api_keys_expired_total',
    help: 'API keys whose expiry was recorded as an event.',
  },
  heldLogs: {
    name: 'holdfast_event_logs_held',
    help: 'Partitions that keep events beyond their retention because no dispatcher has read them.',
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;
