import type { MetricsTable } from '../telemetry/index.js';

export const AUDIT_METRICS = {
  changes: {
    name: 'holdfast_governance_changes_total',
    help: 'Requests of the governance plane and for operators that are not reads, by operation and outcome: OK or the error code.',
    labels: ['operation', 'outcome'],
  },
  writes: {
    name: 'cycles_admin_audit_writes_total',
    help: 'Rows of the audit log not written by scripts, and of the request log (path_class refused): written, lost through an error or a full queue (error, dropped), or only counted in a summary row (sampled-out).',
    labels: ['path_class', 'outcome'],
  },
  displaced: {
    name: 'holdfast_audit_rows_displaced_total',
    help: 'Audit rows of reads and missing credentials removed before the end of their retention because their log was full.',
  },
  pagesCut: {
    name: 'holdfast_audit_pages_cut_total',
    help: 'Pages of the audit log that ended early because so many rows did not match.',
  },
  // Results of verifying the ledger, for alerts. Without labels, so that even the first drift is an increase from 0.
  verifiedBudgets: {
    name: 'holdfast_verify_budgets_total',
    help: 'Budgets recomputed from their reservations.',
  },
  drifts: {
    name: 'holdfast_verify_drift_total',
    help: 'Budgets that did not match their reservations, and reservations that did not match the journal, counted at each verification.',
  },
  unreadable: {
    name: 'holdfast_verify_unreadable_total',
    help: 'Live reservations with unreadable records, counted at each verification.',
  },
} as const satisfies MetricsTable;
