import type { Instruments, MetricsTable } from '../telemetry/index.js';

const OF_EVENT = ['tenant', 'event_type'] as const;

/** The deliveries' outcomes under the names that existing dashboards know, and how the dispatch itself is doing. */
export const WEBHOOK_METRICS = {
  attempts: {
    name: 'cycles_webhook_delivery_attempts_total',
    help: 'Attempts to deliver an event.',
    labels: OF_EVENT,
  },
  successes: {
    name: 'cycles_webhook_delivery_success_total',
    help: 'Deliveries that an endpoint accepted.',
    labels: [...OF_EVENT, 'status_code_family'],
  },
  failures: {
    name: 'cycles_webhook_delivery_failed_total',
    help: 'Attempts that failed, and deliveries given up without one.',
    labels: [...OF_EVENT, 'reason'],
  },
  retries: {
    name: 'cycles_webhook_delivery_retried_total',
    help: 'Failed attempts after which another one was planned.',
    labels: OF_EVENT,
  },
  latency: {
    name: 'cycles_webhook_delivery_latency_seconds',
    help: 'How long attempts took.',
    labels: [...OF_EVENT, 'outcome'],
    buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  untilFirst: {
    name: 'holdfast_webhook_first_attempt_delay_seconds',
    help: 'From the event to the start of its first attempt.',
    buckets: [0.025, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600],
  },
  grouped: {
    name: 'holdfast_webhook_grouped_deliveries_total',
    help: 'Attempts to deliver an event in a request that may carry several.',
  },
  retriesNotStored: {
    name: 'holdfast_webhook_retries_not_stored_total',
    help: 'Retries that Redis could not store; the deliveries stay first in their queues and are attempted again.',
  },
  postponed: {
    name: 'holdfast_webhook_attempts_postponed_total',
    help: 'Attempts that were not begun because too many host names were being looked up; they are made soon.',
  },
  stale: {
    name: 'cycles_webhook_delivery_stale_total',
    help: 'Deliveries that were too old when their turn came.',
    labels: ['tenant'],
  },
  deadLetters: {
    name: 'holdfast_webhook_dead_letters_total',
    help: 'Deliveries that failed for good: after their last attempt, or too old for one.',
  },
  disabled: {
    name: 'cycles_webhook_subscription_auto_disabled_total',
    help: 'Subscriptions that failed too often in a row, or whose endpoint is gone.',
    labels: ['tenant', 'reason'],
  },
  queued: {
    name: 'cycles_admin_webhook_dispatched_total',
    help: 'Deliveries queued for an event, or not.',
    labels: ['result'],
  },
  queueingPauses: {
    name: 'holdfast_webhook_queueing_pauses_total',
    help: 'Pauses in which the queueing of deliveries left Redis to the ledger.',
  },
  held: {
    name: 'holdfast_webhook_queueing_held_total',
    help: 'Times that events stayed in the log because the queues of all their deliveries were long.',
  },
  failurePauses: {
    name: 'holdfast_webhook_failure_pauses_total',
    help: 'Pauses after failed attempts: before the next first attempt of a queue, or before another retry takes the place.',
    labels: ['for'],
  },
  leaseChanges: {
    name: 'holdfast_dispatch_lease_changes_total',
    help: 'Leases of partitions that this instance took, lost to another, or let go.',
    labels: ['change'],
  },
  restarts: {
    name: 'holdfast_dispatch_restarts_total',
    help: 'Times that the dispatch was found stuck and restarted.',
  },
  recoveries: {
    name: 'holdfast_dispatch_left_over_total',
    help: 'Retries made more than half a minute late, and failures that another process had left uncounted.',
    labels: ['kind'],
  },
  partitions: {
    name: 'holdfast_dispatch_leases_held',
    help: 'Partitions whose events this instance dispatches.',
  },
  lag: {
    name: 'holdfast_event_log_lag',
    help: 'Events in the partitions of this instance that are not yet queued for their subscribers.',
  },
  oldest: {
    name: 'holdfast_oldest_undelivered_event_seconds',
    help: 'Age of the oldest event in the partitions of this instance that waits to be read or for its first attempt.',
    acrossWorkers: 'max',
  },
  inFlight: {
    name: 'holdfast_webhook_attempts_in_flight',
    help: 'Attempts that this instance is making.',
  },
  waiting: {
    name: 'holdfast_webhook_deliveries_waiting',
    help: 'Deliveries that wait, in the partitions of this instance.',
    labels: ['for'],
  },
  unreadable: {
    name: 'holdfast_webhook_subscriptions_unreadable_total',
    help: 'Times that a subscription was not dispatched to because its record is corrupt.',
  },
  deliveryPagesCut: {
    name: 'holdfast_webhook_delivery_pages_cut_total',
    help: 'Pages of webhook deliveries that ended early because so many did not match.',
  },
  probes: {
    name: 'holdfast_webhook_probes_total',
    help: 'Test events sent to webhook endpoints, by result.',
    labels: ['result'],
  },
  replays: {
    name: 'holdfast_webhook_replays_total',
    help: 'Requests to replay events to a webhook subscription, by result.',
    labels: ['result'],
  },
  replayedEvents: {
    name: 'holdfast_webhook_replayed_events_total',
    help: 'Deliveries queued by replays.',
  },
  // Refused targets are mistakes of subscribers, or attempts to reach internal hosts.
  targetsRefused: {
    name: 'holdfast_webhook_targets_refused_total',
    help: 'URLs and addresses refused as webhook targets, by when and why.',
    labels: ['judged', 'reason'],
  },
  lookups: {
    name: 'holdfast_webhook_lookups_total',
    help: 'Lookups of webhook host names, by outcome.',
    labels: ['outcome'],
  },
  lookupsUnderWay: {
    name: 'holdfast_webhook_lookups_under_way',
    help: 'Lookups of webhook host names under way.',
  },
  lookupsWaiting: {
    name: 'holdfast_webhook_lookups_waiting',
    help: 'Lookups of webhook host names that wait for a slot.',
  },
} as const satisfies MetricsTable;

export type WebhookCounts = Instruments<typeof WEBHOOK_METRICS>;
