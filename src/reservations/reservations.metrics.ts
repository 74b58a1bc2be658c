import { Refusal } from '../ledger/index.js';
import { StoreUnavailable } from '../redis/index.js';
import type { Instruments, MetricsTable } from '../telemetry/index.js';

/** The runtime plane, under the names that existing dashboards use. */
export const RESERVATION_METRICS = {
  reserves: {
    name: 'cycles_reservations_reserve_total',
    help: 'Reserve requests by outcome.',
    labels: ['tenant', 'decision', 'reason', 'overage_policy'],
  },
  sets: {
    name: 'holdfast_reservation_sets_total',
    help: 'Sets of reserves by outcome: granted, replayed, refused, or failed. Their members count as reserves; of a refused set, the one that was refused.',
    labels: ['outcome'],
  },
  observations: {
    name: 'holdfast_observed_reserves_total',
    help: 'Reserve requests in observe mode by what would have become of them; they are not among the other reserves.',
    labels: ['tenant', 'decision', 'reason'],
  },
  commits: {
    name: 'cycles_reservations_commit_total',
    help: 'Commit requests by outcome.',
    labels: ['tenant', 'decision', 'reason', 'overage_policy'],
  },
  releases: {
    name: 'cycles_reservations_release_total',
    help: 'Release requests by outcome.',
    labels: ['tenant', 'actor_type', 'decision', 'reason'],
  },
  refunds: {
    name: 'holdfast_refunds_total',
    help: 'Refunds of reservations and direct debits by outcome.',
    labels: ['tenant', 'actor_type', 'decision', 'reason'],
  },
  extends: {
    name: 'cycles_reservations_extend_total',
    help: 'Extend requests by outcome.',
    labels: ['tenant', 'decision', 'reason'],
  },
  batched: {
    name: 'holdfast_batch_operations_total',
    help: 'Operations in batches by the status of their results. Each also counts as the operation that it is.',
    labels: ['op', 'status'],
  },
  decisions: {
    name: 'holdfast_decisions_total',
    help: 'Decide requests by outcome.',
    labels: ['tenant', 'decision', 'reason'],
  },
  debits: {
    name: 'cycles_events_total',
    help: 'Direct debits by outcome.',
    labels: ['tenant', 'decision', 'reason', 'overage_policy'],
  },
  overdrafts: {
    name: 'cycles_overdraft_incurred_total',
    help: 'Settlements that created debt.',
    labels: ['tenant'],
  },
  damagedBudgets: {
    name: 'holdfast_budgets_damaged_total',
    help: 'Operations that were stopped because the figures of a budget are damaged or out of balance.',
  },
  unreadable: {
    name: 'holdfast_reservations_unreadable_total',
    help: 'Damaged records found on reading, by what is wrong with them.',
    labels: ['reason'],
  },
  forecasts: {
    name: 'holdfast_funds_forecasts_total',
    help: 'Refusals for lack of budget that were explained, by whether the time of a retry could be told.',
    labels: ['result'],
  },
  waiters: {
    name: 'holdfast_reserve_waiters',
    help: 'Reserves that wait for funds now.',
  },
  waits: {
    name: 'holdfast_reserve_waits_total',
    help: 'Reserves that waited for funds, by outcome. Those not_queued were refused at once: too many wait, or a budget is too small for them.',
    labels: ['outcome'],
  },
  wakeUps: {
    name: 'holdfast_reserve_wake_ups_total',
    help: 'Times that a waiting reserve was told to try again: by the script that freed funds, or by the renewal of its place after a lost message.',
    labels: ['by'],
  },
  waitSeconds: {
    name: 'holdfast_reserve_wait_seconds',
    help: 'How long reserves waited for funds. Durations of requests do not include it.',
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30],
  },
  placeFailures: {
    name: 'holdfast_reserve_place_failures_total',
    help: 'Calls that failed to renew places of waiting reserves, which is tried again, or to give one up, which then lapses.',
    labels: ['call'],
  },
} as const satisfies MetricsTable;

export type ReservationCounts = Instruments<typeof RESERVATION_METRICS>;

/** How scripts end that meet a budget whose figures cannot be trusted: lua/lib/budget_figures.lua. */
const DAMAGED_BUDGET = 'corrupt budget record';

/** The reason label of a failed operation: its error code, or why the store gave no answer. Counts damaged budgets. */
export function reasonOf({ damagedBudgets }: ReservationCounts, error: unknown): string {
  if (error instanceof Error && error.message.includes(DAMAGED_BUDGET)) {
    damagedBudgets.inc();
  }
  if (error instanceof Refusal) {
    return error.code;
  }
  if (error instanceof StoreUnavailable) {
    return error.reason === 'quarantine' ? 'QUARANTINED' : 'STORE_UNAVAILABLE';
  }
  return 'INTERNAL_ERROR';
}
