import type { EventMember, EventMemberName } from './event-members.js';

export interface EventPayload {
  /** What has happened. */
  readonly says: string;
  readonly members: readonly EventMemberName[];
  /** Members that mean something else here than elsewhere. */
  readonly own?: Readonly<Partial<Record<EventMemberName, EventMember>>>;
}

export const payload = (says: string, ...members: readonly EventMemberName[]): EventPayload => ({
  says,
  members,
});

export const DENIAL = [
  'scope',
  'unit',
  'reason_code',
  'requested_amount',
  'estimated_amount',
  'remaining',
  'window',
  'policy_id',
  'idempotency_key',
  'subject',
  'action',
  'deny_detail',
] as const;
const TEMPLATE = ['template_id', 'scope_pattern', 'unit'] as const;
const CREDIT = ['credit_id', 'name', 'unit', 'remaining', 'effective_at', 'expires_at'] as const;

const refunded = (says: string, of: EventMemberName): EventPayload =>
  payload(says, of, 'unit', 'refunded', 'refunded_total', 'charged', 'reason');
const credit = (says: string, ...more: readonly EventMemberName[]): EventPayload => ({
  ...payload(says, ...CREDIT, ...more),
  own: { remaining: { is: 'int64', says: 'What was left of the credit at that moment, in the unit.' } },
});

/** Of the types that Holdfast adds to those of the protocol. */
export const CUSTOM_EVENT_PAYLOADS = {
  'custom.direct_debit.applied': payload(
    'A direct debit was charged.',
    'event_id',
    'unit',
    'actual_amount',
    'charged',
    'overage_policy',
    'debt_incurred',
    'idempotency_key',
    'client_time_ms',
    'metrics',
    'metadata',
    'subject',
    'action',
  ),
  'custom.credit.granted': payload(
    'A budget was given a credit.',
    'ledger_id',
    'credit_id',
    'name',
    'category',
    'unit',
    'amount',
    'priority',
    'effective_at',
    'expires_at',
  ),
  'custom.credit.started': credit(
    'A credit has started: it is a part of what the budget has been given.',
    'debt_repaid',
  ),
  'custom.credit.ending': credit('A credit ends soon, by as much as its grant asked for.'),
  'custom.credit.ended': credit(
    'A credit has reached its end. What is pinned stays for holds that were made before.',
    'lapsed',
    'pinned',
  ),
  'custom.credit.exhausted': credit('A credit was consumed before its end.'),
  'custom.credit.voided': credit('An operator ended a credit.', 'voided', 'pinned'),
  'custom.direct_debit.refunded': refunded('A direct debit was refunded, all or a part.', 'event_id'),
  'custom.reservation.refunded': refunded('A reservation was refunded, all or a part.', 'reservation_id'),
  'custom.direct_debit.denied': payload('A direct debit was refused.', ...DENIAL),
  'custom.budget_template.created': payload('A template of budgets was made.', ...TEMPLATE),
  'custom.budget_template.updated': payload('A template of budgets changed.', ...TEMPLATE, 'changed_fields'),
  'custom.budget_template.deleted': payload('A template of budgets was deleted.', ...TEMPLATE),
  'custom.reservation.quarantined': payload(
    'The record of a reservation is damaged: nothing is done with it until an operator decides.',
    'reservation_id',
    'reason',
    'quarantined_at',
  ),
  'custom.reservation.quarantine_decided': {
    ...payload(
      'An operator has decided on a reservation in quarantine.',
      'reservation_id',
      'action',
      'outcome',
      'quarantine_reason',
      'reason',
      'returned_amount',
    ),
    own: { action: { is: 'text', says: 'What was decided: `retry` or `release`.' } },
  },
  'custom.reservation.reindexed': payload(
    'A reservation was missing from the index of deadlines, and is back in it.',
    'reservation_id',
    'found',
    'reclaim_deadline',
  ),
} as const satisfies Readonly<Record<string, EventPayload>>;
