import type { MetricsTable } from '../telemetry/index.js';

export const ARCHIVE_METRICS = {
  rows: {
    name: 'holdfast_archive_rows_total',
    help: 'Rows written to the archive by stream: charges, events or audit.',
    labels: ['stream'],
  },
  files: {
    name: 'holdfast_archive_files_total',
    help: 'Files written to the archive: staged ones, merged ones, and those of published days.',
    labels: ['written'],
  },
  days: {
    name: 'holdfast_archive_days_total',
    help: 'Days of the archive that were published, and that were removed after their retention.',
    labels: ['change'],
  },
  failures: {
    name: 'holdfast_archive_failures_total',
    help: 'Failures to open, write or publish the archive, tasks of its thread that never ended, and failures to read an entry for it: such a row has its place alone.',
    labels: ['step'],
  },
  moved: {
    name: 'holdfast_archive_cursors_moved_total',
    help: 'Files that another archiver or a failover had made unnecessary.',
  },
  epochs: {
    name: 'holdfast_archive_epochs_total',
    help: 'Epochs of the archive that began because Redis was put back: what the archive had of later is superseded.',
  },
  gaps: {
    name: 'holdfast_archive_gaps',
    help: 'Stretches of entries that should be in the archive and are not, by kind: file (one is missing, cut or changed, and can be put back) or lost (for good).',
    labels: ['kind'],
    acrossWorkers: 'max',
  },
  lag: {
    name: 'holdfast_archive_lag_seconds',
    help: 'Age of the oldest entry of the journals that is not archived, in the partitions of this instance.',
    acrossWorkers: 'max',
  },
  partitions: {
    name: 'holdfast_archive_partitions',
    help: 'Partitions that this instance archives.',
  },
  leaseChanges: {
    name: 'holdfast_archive_lease_changes_total',
    help: 'Leases of partitions that this archiver took, lost or released.',
    labels: ['change'],
  },
} as const satisfies MetricsTable;
