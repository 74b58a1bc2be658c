import type { MetricsRegistry, MetricsTable } from '../telemetry/index.js';

/** In seconds: from a quarter of the shortest sleep of the sweeper to a minute, by which readiness has long failed. */
export const LATENESS_BUCKETS = [0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

/** Expiries from every source: the sweeper, operations that find an overdue hold, and operators' cleanups. */
export const EXPIRY_METRICS = {
  expired: {
    name: 'cycles_reservations_expired_total',
    help: 'Reservations that expired and gave their hold back, less what they cost.',
    labels: ['tenant'],
  },
  quarantined: {
    name: 'cycles_reservations_quarantined_total',
    help: 'Reservations whose record cannot be settled, taken out of the sweep for an operator.',
    labels: ['tenant', 'reason'],
  },
  outcomes: {
    name: 'holdfast_expiry_outcomes_total',
    help: 'Candidates judged, by outcome: EXPIRED, SKIP, NOT_FOUND, QUARANTINED, ERROR. The detail is the reason of a skip, or charged for an expiry that cost something.',
    labels: ['source', 'outcome', 'detail'],
  },
  lateness: {
    name: 'holdfast_expiry_lateness_seconds',
    help: 'How long after its reclaim deadline a hold was given back.',
    buckets: LATENESS_BUCKETS,
  },
  decisions: {
    name: 'holdfast_quarantine_decisions_total',
    help: "Operators' decisions on reservations in quarantine, and what came of them.",
    labels: ['action', 'outcome'],
  },
  reconciled: {
    name: 'holdfast_reconciled_total',
    help: 'Live reservations that the reconciler put back into their index of deadlines, TTL or cleanup, by what was wrong: MISSING or MISPLACED.',
    labels: ['found'],
  },
} as const satisfies MetricsTable;

/** The sweeper itself. */
export const SWEEP_METRICS = {
  age: {
    name: 'holdfast_sweep_age_seconds',
    help: 'How long ago the last sweep without a failure ended.',
    acrossWorkers: 'max',
  },
  lastSuccess: {
    name: 'holdfast_sweep_last_success_timestamp_seconds',
    help: 'When the last sweep without a failure ended, by the time of Redis.',
    acrossWorkers: 'min',
  },
  pages: {
    name: 'holdfast_sweep_pages_total',
    help: 'Pages of due holds that were read.',
  },
  cuts: {
    name: 'holdfast_sweep_cut_total',
    help: 'Sweeps that their time budget ended before everything due was judged.',
  },
  late: {
    name: 'holdfast_sweep_late_total',
    help: 'Sweeps that found a hold more than 250 ms after its deadline, and then did not make way for requests.',
  },
  pauses: {
    name: 'holdfast_sweep_pauses_total',
    help: 'Pauses of sweeps that left time to requests.',
  },
  leaseChanges: {
    name: 'holdfast_sweep_lease_changes_total',
    help: 'Leases of partitions that this instance took, lost to another, or let go.',
    labels: ['change'],
  },
  restarts: {
    name: 'holdfast_sweep_restarts_total',
    help: 'Times that the sweep was found stuck and restarted.',
  },
  leases: {
    name: 'holdfast_sweep_leases_held',
    help: 'Partitions that this instance sweeps.',
  },
  instances: {
    name: 'holdfast_sweep_instances',
    help: 'Instances that share the sweep, as this one sees it.',
    acrossWorkers: 'max',
  },
  backlog: {
    name: 'holdfast_sweep_backlog',
    help: 'Holds in the partitions of this instance that are due and not yet expired.',
  },
  oldestDue: {
    name: 'holdfast_sweep_oldest_due_seconds',
    help: 'How long the oldest of them has been due.',
    acrossWorkers: 'max',
  },
  quarantined: {
    name: 'holdfast_quarantine_entries',
    help: 'Reservations in quarantine, in the partitions of this instance.',
  },
  awaitingCleanup: {
    name: 'holdfast_cleanup_awaiting',
    help: 'Reservations under MANUAL_CLEANUP whose grace is over, in the partitions of this instance.',
  },
  oldestAwaiting: {
    name: 'holdfast_cleanup_oldest_seconds',
    help: 'How long ago the grace of the oldest of them ended.',
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;

/** An outcome of lua/lib/expiry.lua in a script's reply. */
export interface ExpiryOutcome {
  readonly word: string;
  readonly detail?: string;
  readonly secondDetail?: string;
}

/** The outcome for readers: an expiry that was charged is one. */
export function outcomeOf(word: string): string {
  return word === 'CHARGED' ? 'EXPIRED' : word;
}

/** Counts one outcome of the expiry transition. @param nowMs Redis' time of the transition */
export function countExpiry(
  metrics: MetricsRegistry,
  source: 'sweep' | 'access' | 'cleanup',
  { word, detail = '', secondDetail = '' }: ExpiryOutcome,
  nowMs = 0,
): void {
  const counts = metrics.of(EXPIRY_METRICS);
  counts.outcomes.inc({
    source,
    outcome: outcomeOf(word),
    detail: word === 'SKIP' || word === 'QUARANTINED' ? detail : word === 'CHARGED' ? 'charged' : 'none',
  });
  if (outcomeOf(word) === 'EXPIRED') {
    counts.expired.inc({ tenant: detail });
    metrics.activity.add('expirations');
    // How long a hold waited for an operator says nothing about the sweep.
    if (source !== 'cleanup') {
      const lateS = Math.max(0, nowMs - Number(secondDetail)) / 1000;
      counts.lateness.observe(lateS);
      const bucket = LATENESS_BUCKETS.findIndex((bound) => lateS <= bound);
      metrics.activity.add(`late_${bucket === -1 ? LATENESS_BUCKETS.length : bucket}`);
    }
  } else if (word === 'QUARANTINED') {
    counts.quarantined.inc({ tenant: secondDetail, reason: detail });
  }
}

/** Counts a candidate of the sweep that could not be judged. */
export function countUnjudged(metrics: MetricsRegistry): void {
  metrics.of(EXPIRY_METRICS).outcomes.inc({ source: 'sweep', outcome: 'ERROR', detail: 'none' });
}
