import type { MetricsTable } from '../telemetry/index.js';

export const CONSOLE_METRICS = {
  snapshots: {
    name: 'holdfast_console_snapshots_total',
    help: "Snapshots of the console's live figures, one a second while somebody looks.",
  },
  viewers: {
    name: 'holdfast_console_viewers',
    help: "Pages that follow the console's live figures.",
  },
  flushesLost: {
    name: 'holdfast_activity_flushes_lost_total',
    help: "Seconds whose counts are missing in the console's graphs, because Redis did not take them.",
  },
  providerLogIns: {
    name: 'holdfast_provider_log_ins_total',
    help: 'Log-ins to the console by the identity provider, by outcome: ok, refused (by the provider), no_role, no_tenant, unfinished, invalid or unavailable.',
    labels: ['outcome'],
  },
} as const satisfies MetricsTable;
