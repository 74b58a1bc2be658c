import type { MetricsTable } from '../telemetry/index.js';

export const EVENT_METRICS = {
  pagesCut: {
    name: 'holdfast_event_pages_cut_total',
    help: 'Pages of events that ended early because so many entries did not match.',
  },
  outages: {
    name: 'holdfast_store_outages_total',
    help: 'Outages of Redis that this instance survived, by whether it emitted the event, another instance did, or that failed.',
    labels: ['outcome'],
  },
} as const satisfies MetricsTable;
