import { COUNT, FLAG, INT64, list, mapOf, MILLISECONDS, object, oneOf, PAGE, ref, TEXT } from './parts.js';

const QUARANTINE_ENTRY = { reservation_id: TEXT, reason: TEXT, quarantined_at_ms: MILLISECONDS };

/** What a release gives back, and what it cannot. */
const RETURNABLE = {
  returns: list(object({ scope: TEXT, unit: TEXT, amount: INT64 })),
  keeps: list(object({ scope: TEXT, reason: TEXT })),
};

/** The operators' view on the sweep and on what it put aside. */
export const SWEEPER_SCHEMAS = {
  QuarantineList: object({ entries: list(object(QUARANTINE_ENTRY)), has_more: FLAG }, PAGE),
  QuarantinedReservation: object(
    { ...QUARANTINE_ENTRY, record: mapOf(TEXT), ...RETURNABLE },
    {
      defect: {
        type: 'string',
        description: 'Why the record cannot be settled now; absent when it was mended since.',
      },
    },
  ),
  QuarantineDecision: object(
    {
      reservation_id: TEXT,
      action: oneOf('retry', 'release'),
      outcome: { type: 'string', description: 'RELEASED, or what became of it when it was judged again.' },
      decided_at_ms: MILLISECONDS,
      ...RETURNABLE,
    },
    { detail: TEXT },
  ),
  CleanupReport: object(
    {
      dry_run: FLAG,
      examined: COUNT,
      outcomes: { ...mapOf(COUNT), description: 'How many reservations had each outcome.' },
      reservations: list(
        object(
          { reservation_id: TEXT, outcome: TEXT },
          { tenant_id: TEXT, reclaim_at_ms: MILLISECONDS, detail: TEXT },
        ),
      ),
      has_more: FLAG,
    },
    PAGE,
  ),
  SweepTick: object({
    at_ms: MILLISECONDS,
    duration_ms: MILLISECONDS,
    judged: COUNT,
    expired: COUNT,
    failed: COUNT,
    cut: { type: 'boolean', description: 'The time budget ended it before everything due was judged.' },
  }),
  SweepInstance: object(
    { instance: TEXT, lapses_in_ms: MILLISECONDS, holds: list(TEXT) },
    {
      backlog: COUNT,
      oldest_due_for_ms: MILLISECONDS,
      quarantined: COUNT,
      awaiting_cleanup: COUNT,
      oldest_awaiting_for_ms: MILLISECONDS,
      last_success_age_ms: MILLISECONDS,
      ticks: COUNT,
      last_ticks: list(ref('SweepTick')),
    },
  ),
  SweepPartition: object(
    { partition: TEXT, indexed: COUNT, due: COUNT, quarantined: COUNT, awaiting_cleanup: COUNT },
    {
      held_by: TEXT,
      lapses_in_ms: MILLISECONDS,
      oldest_due_at_ms: MILLISECONDS,
      next_deadline_at_ms: MILLISECONDS,
      oldest_awaiting_at_ms: MILLISECONDS,
    },
  ),
  SweeperState: object({
    now_ms: MILLISECONDS,
    instances: list(ref('SweepInstance')),
    unheld: { ...list(TEXT), description: 'Partitions that nobody sweeps at the moment.' },
    backlog: COUNT,
    lateness_ms: { ...MILLISECONDS, description: 'How long the oldest due reservation has been due.' },
    quarantined: COUNT,
    awaiting_cleanup: {
      ...COUNT,
      description: 'Reservations under MANUAL_CLEANUP whose grace is over. They are not in the backlog.',
    },
    oldest_awaiting_for_ms: {
      ...MILLISECONDS,
      description: 'How long ago the grace of the oldest of these ended.',
    },
    partitions: list(ref('SweepPartition')),
    unreadable: { ...list(TEXT), description: 'Partitions whose index could not be read.' },
  }),
} as const;
