import type { Instruments, MetricsTable } from '../telemetry/index.js';

const OF_RUN = ['job', 'outcome'] as const;

/** Runs of scheduled work, under the names that existing dashboards use. Problems with a job's lease are outcomes, too. */
export const MAINTENANCE_METRICS = {
  runs: {
    name: 'cycles_maintenance_runs_total',
    help: 'Runs of scheduled work by outcome.',
    labels: OF_RUN,
  },
  durations: {
    name: 'cycles_maintenance_duration_seconds',
    help: 'How long runs of scheduled work took.',
    labels: OF_RUN,
    buckets: [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 30],
  },
  trimmed: {
    name: 'holdfast_index_entries_trimmed_total',
    help: 'Index entries removed because their records are gone.',
  },
} as const satisfies MetricsTable;

export type MaintenanceCounts = Instruments<typeof MAINTENANCE_METRICS>;

export function countRun(
  { runs, durations }: MaintenanceCounts,
  job: string,
  outcome: 'success' | 'failed',
  durationMs: number,
): void {
  runs.inc({ job, outcome });
  durations.observe(durationMs / 1000, { job, outcome });
}

/** What PartitionLeases tells of a job's leases, counted. @param changes labelled by what became of a lease */
export function countLeases(
  { runs }: MaintenanceCounts,
  job: string,
  changes: { inc(labels: { readonly change: string }): void },
): { changed: (change: 'taken' | 'lost' | 'released') => void; announcementFailed: () => void } {
  return {
    changed: (change) => {
      changes.inc({ change });
      if (change === 'lost') {
        runs.inc({ job, outcome: 'lease_lost' });
      }
    },
    announcementFailed: () => runs.inc({ job, outcome: 'lease_error' }),
  };
}
