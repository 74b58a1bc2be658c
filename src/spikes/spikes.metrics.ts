import type { MetricsTable } from '../telemetry/index.js';

export const SPIKE_METRICS = {
  emitted: {
    name: 'holdfast_spike_events_total',
    help: 'Events about a rate or latency above its threshold that this instance emitted, by type.',
    labels: ['event_type'],
  },
  counted: {
    name: 'holdfast_spike_events_counted_total',
    help: 'Denials and expirations that this instance counted into the rates of tenants.',
  },
  cuts: {
    name: 'holdfast_spike_runs_cut_total',
    help: 'Runs that ended for time before everything was counted and compared. The next one continues.',
  },
} as const satisfies MetricsTable;
