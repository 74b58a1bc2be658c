import { TENANT_LIMITS, UNITS } from '../ledger/index.js';
import { BUDGET_OPERATIONS_SCHEMAS } from './budget-operations-schemas.js';
import {
  COUNT,
  FLAG,
  FREE,
  INT64,
  list,
  mapOf,
  MILLISECONDS,
  object,
  oneOf,
  PAGE,
  ref,
  TEXT,
  TIME,
  TRACE_ID,
} from './parts.js';
import { SET_ID } from './runtime-schemas.js';
import { USAGE_SCHEMAS } from './usage-schemas.js';
import { VERIFY_SCHEMAS } from './verify-schemas.js';

const AMOUNT = ref('Amount');
const EVENT = object(
  { event_id: TEXT },
  { event_type: TEXT, request_id: TEXT, trace_id: TRACE_ID, figures: FREE },
);
const PERCENT = { ...COUNT, maximum: 100, description: 'Of the estimate, rounded up.' };

/** The answers of the operators' paths under /ops, which are Holdfast's own. */
export const OPERATIONS_SCHEMAS = {
  ...BUDGET_OPERATIONS_SCHEMAS,
  ...VERIFY_SCHEMAS,
  ...USAGE_SCHEMAS,
  TestClock: object(
    {
      status: {
        ...oneOf('READY', 'ADVANCING'),
        description:
          'ADVANCING: time stands until the advance is repeated, or another instance has ended it.',
      },
      now: { ...TIME, description: 'The time of the deployment.' },
      ahead_by_ms: { ...INT64, description: "How far that is ahead of Redis' own clock." },
    },
    { advancing_to: TIME },
  ),
  TenantLimits: object({
    tenant_id: TEXT,
    limits: object(Object.fromEntries(TENANT_LIMITS.map((limit) => [limit, ref('TenantLimitState')]))),
  }),
  TenantLimitState: object({
    limit: { ...COUNT, description: '0 is no limit.' },
    source: { ...oneOf('deployment', 'tenant'), description: 'Whose limit it is.' },
    used: COUNT,
  }),
  TenantChargeOnExpiry: object({ tenant_id: TEXT, percent: PERCENT }),
  PolicyChargeOnExpiry: object(
    { policy_id: TEXT },
    { percent: { ...PERCENT, description: 'Absent if the tenant decides.' } },
  ),
  ReservationHistory: object(
    { reservation_id: TEXT, state: TEXT },
    {
      tenant_id: TEXT,
      request: object(
        {
          subject: ref('Subject'),
          action: ref('Action'),
          estimate: AMOUNT,
          overage_policy: TEXT,
          ttl_ms: MILLISECONDS,
          grace_period_ms: MILLISECONDS,
        },
        { idempotency_key: TEXT, reservation_set_id: SET_ID, key_id: TEXT, metadata: FREE },
      ),
      scope_path: TEXT,
      scopes: list(object({ scope: TEXT, budgeted: FLAG })),
      reserved: AMOUNT,
      created_at_ms: MILLISECONDS,
      expires_at_ms: MILLISECONDS,
      reclaim_at_ms: {
        ...MILLISECONDS,
        description: 'The end of the grace: after this, it cannot be settled.',
      },
      expiry_policy: {
        ...oneOf('AUTO_RELEASE', 'MANUAL_CLEANUP', 'GRACE_ONLY'),
        description: "The tenant's policy when the reservation was made.",
      },
      charge_on_expiry: { ...AMOUNT, description: 'What it costs if it expires.' },
      awaiting_cleanup: {
        type: 'boolean',
        description:
          'Whether the grace is over, so that only a release or a cleanup ends it. Only live reservations under MANUAL_CLEANUP have it.',
      },
      extensions_allowed: COUNT,
      extensions: list(
        object(
          { at_ms: MILLISECONDS, granted_ms: MILLISECONDS, expires_at_ms: MILLISECONDS },
          { key_id: TEXT },
        ),
      ),
      end: object(
        {
          how: oneOf('COMMITTED', 'RELEASED', 'EXPIRED'),
          by: object({ type: TEXT }, { key_id: TEXT }),
          returned: list(object({ scope: TEXT, unit: oneOf(...UNITS), amount: INT64 })),
        },
        {
          at_ms: MILLISECONDS,
          reason: TEXT,
          charged: AMOUNT,
          refunded: { ...AMOUNT, description: 'What of the charge was refunded.' },
          credits: {
            ...list(object({ credit_id: TEXT, amount: AMOUNT })),
            description: 'Which credits paid how much of the charge.',
          },
          committed_metadata: FREE,
          committed_metrics: FREE,
          event: EVENT,
        },
      ),
      quarantine: object({ reason: TEXT, waiting: FLAG }, { at_ms: MILLISECONDS }),
      record_goes_at_ms: {
        ...MILLISECONDS,
        description: 'When the record itself goes; absent while the reservation lives.',
      },
      defect: {
        type: 'string',
        description: 'Why the record cannot be settled; it is then given as it is stored.',
      },
      stored: FREE,
    },
  ),
  Expiration: object(
    {
      at_ms: MILLISECONDS,
      at: TIME,
      state: oneOf('EXPIRED', 'QUARANTINED'),
      reservation_id: TEXT,
      tenant_id: TEXT,
      event_id: TEXT,
    },
    {
      scope: TEXT,
      unit: oneOf(...UNITS),
      amount: INT64,
      charged: { ...INT64, description: 'What the expiry charged of the amount; the rest returned.' },
      created_at_ms: MILLISECONDS,
      ttl_ms: MILLISECONDS,
      extensions_used: COUNT,
      reason: TEXT,
      request_id: TEXT,
      trace_id: TRACE_ID,
    },
  ),
  ExpirationListResponse: object({ expirations: list(ref('Expiration')), has_more: FLAG }, PAGE),
  ExpirationCountsResponse: object(
    {
      slots: list(object({ at_ms: MILLISECONDS, expirations: COUNT })),
      share_read: { type: 'number', minimum: 0, maximum: 1 },
      has_more: FLAG,
    },
    PAGE,
  ),
} as const;

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
        description: 'Why the record cannot be settled now; absent if it has been repaired since.',
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
      examined: {
        ...COUNT,
        description:
          'How many reservations whose grace is over were looked at; for one tenant, those that are listed.',
      },
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
    unheld: { ...list(TEXT), description: 'Partitions that no instance is sweeping.' },
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
