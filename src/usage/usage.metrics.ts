import type { MetricsTable } from '../telemetry/index.js';

export const USAGE_METRICS = {
  queries: {
    name: 'holdfast_usage_queries_total',
    help: 'Reports of usage by outcome: OK, or why there was none: missing (DuckDB is not installed), timeout, died, gone (the client left), refused (by DuckDB), busy.',
    labels: ['outcome'],
  },
  duration: {
    name: 'holdfast_usage_query_duration_seconds',
    help: 'How long DuckDB took for a report that succeeded, the start of its process included.',
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
} as const satisfies MetricsTable;
