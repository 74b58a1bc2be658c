import { CUSTOM_EVENT_PAYLOADS, DENIAL, type EventPayload, payload } from './custom-event-payloads.js';
import { EVENT_MEMBERS, type EventMember } from './event-members.js';

export type { EventPayload } from './custom-event-payloads.js';

const CHANGE = ['scope', 'ledger_id', 'unit', 'operation'] as const;
const STATES = ['previous_state', 'new_state'] as const;
const FIGURES = ['allocated', 'remaining', 'spent', 'reserved'] as const;
const STATUSES = ['previous_status', 'new_status', 'changed_fields'] as const;
const KEY = ['key_id', 'key_name', 'previous_status', 'new_status', 'permissions'] as const;
const CASCADE = ['prior_status', 'new_status', 'cascade_reason'] as const;
const SPIKE = [
  'metric',
  'current_fraction',
  'current_rate',
  'threshold_rate',
  'window_seconds',
  'sample_count',
] as const;
const SYSTEM = ['component', 'message', 'severity', 'details'] as const;
const OVER_LIMIT = ['scope', 'unit', 'debt', 'overdraft_limit', 'debt_utilization', 'is_over_limit'] as const;
const QUOTA = ['scope', 'action_kind', 'risk_class', 'window', 'window_key', 'limit', 'policy_id'] as const;

const funded = (says: string): EventPayload => payload(says, ...CHANGE, 'reason', 'metadata', ...STATES);
const ofTenant = (says: string): EventPayload => payload(says, 'tenant_id', ...STATUSES);
const ofWebhook = (says: string): EventPayload => payload(says, 'subscription_id', 'tenant_id', ...STATUSES);

/** Every type of event that Holdfast emits, with its payload. The documents, OpenAPI and the tests follow this table. */
export const EVENT_PAYLOADS = {
  'budget.created': payload('A budget was made.', ...CHANGE, 'template_id', 'new_state'),
  'budget.updated': payload(
    'Settings of a budget changed: its limit, policies, period, calendar or windows.',
    ...CHANGE,
    'reason',
    'changed_fields',
    'template_id',
    ...STATES,
  ),
  'budget.funded': funded('Funds were added to a budget.'),
  'budget.debited': funded('Funds were taken from a budget.'),
  'budget.reset': funded('The allocation of a budget was set.'),
  'budget.reset_spent': payload(
    'What is spent of a budget starts over, by an operator or because a new period has begun.',
    ...CHANGE,
    'reason',
    'metadata',
    'spent_override_provided',
    ...STATES,
    'rollover_policy',
    'periods',
  ),
  'budget.debt_repaid': funded('Debt of a budget was repaid.'),
  'budget.frozen': funded('A budget was frozen: nothing can be charged to it.'),
  'budget.unfrozen': funded('A frozen budget is active again.'),
  'budget.closed_via_tenant_cascade': payload(
    'A budget was closed with its tenant.',
    'scope',
    'ledger_id',
    'unit',
    ...CASCADE,
  ),
  'budget.threshold_crossed': payload(
    "What is spent and held of a budget crossed one of the thresholds that the tenant's subscriptions ask for.",
    'scope',
    'unit',
    'threshold',
    'threshold_amount',
    'utilization',
    'direction',
    'first_in_period',
    ...FIGURES,
  ),
  'budget.exhausted': payload(
    'Nothing remains of a budget.',
    'scope',
    'unit',
    'reservation_id',
    ...FIGURES,
    'threshold',
    'utilization',
    'direction',
  ),
  'budget.over_limit_entered': payload(
    'A budget is over its limit: it refuses reserves until its debt is repaid or funds are added.',
    ...OVER_LIMIT,
  ),
  'budget.over_limit_exited': payload('A budget is no longer over its limit.', ...OVER_LIMIT),
  'budget.debt_incurred': payload(
    'A commit or a direct debit drove a budget into debt.',
    'scope',
    'unit',
    'reservation_id',
    'debt_incurred',
    'total_debt',
    'overdraft_limit',
    'overage_policy',
  ),
  'budget.burn_rate_anomaly': payload(
    'A budget is spent much faster than before.',
    'scope',
    'unit',
    'current_rate',
    'baseline_rate',
    'multiplier',
    'window_seconds',
    'projected_exhaustion_minutes',
  ),
  'reservation.denied': payload('A reserve was refused for want of budget or by a rule.', ...DENIAL),
  'reservation.observed_denied': payload(
    'A reserve in observe mode would have been refused.',
    'scope',
    'unit',
    'deny_detail',
    'estimated_amount',
    'observe_mode',
    'idempotency_key',
    'window',
    'subject',
    'action',
    'would_have_blocked_at',
  ),
  'reservation.observed_allowed': payload(
    'A reserve in observe mode would have been granted.',
    'scope',
    'decision',
    'unit',
    'estimated_amount',
    'observe_mode',
    'caps_applied',
    'sample_rate',
    'policy_id',
    'idempotency_key',
    'subject',
    'action',
  ),
  'reservation.denial_rate_spike': payload("More than a share of a tenant's reserves are refused.", ...SPIKE),
  'reservation.expired': payload(
    'A reservation expired: its client neither committed nor released it in time.',
    'scope',
    'reservation_id',
    'unit',
    'estimated_amount',
    'charged',
    'created_at',
    'expired_at',
    'ttl_ms',
    'extensions_used',
  ),
  'reservation.expiry_rate_spike': payload("More than a share of a tenant's reservations expire.", ...SPIKE),
  'reservation.commit_overage': payload(
    'A commit used more than was reserved.',
    'scope',
    'reservation_id',
    'unit',
    'estimated_amount',
    'actual_amount',
    'overage',
    'overage_policy',
    'debt_incurred',
  ),
  'reservation.released_via_tenant_cascade': payload(
    'The holds at a budget were released with its tenant.',
    'scope',
    'ledger_id',
    'unit',
    'released_amount',
    'cascade_reason',
  ),
  'tenant.created': ofTenant('A tenant was made.'),
  'tenant.updated': ofTenant('The name or the metadata of a tenant changed.'),
  'tenant.suspended': ofTenant('A tenant was suspended: its reserves are refused.'),
  'tenant.reactivated': ofTenant('A suspended tenant is active again.'),
  'tenant.closed': ofTenant('A tenant was closed, for good.'),
  'tenant.settings_changed': ofTenant('Defaults and limits of a tenant changed.'),
  'webhook.created': ofWebhook('A subscription was made.'),
  'webhook.updated': ofWebhook('Settings of a subscription changed.'),
  'webhook.paused': ofWebhook('A subscription was paused: it gets nothing.'),
  'webhook.resumed': ofWebhook('A subscription is active again.'),
  'webhook.disabled': payload(
    'Holdfast disabled a subscription, because it failed too often or its endpoint is gone.',
    'subscription_id',
    'tenant_id',
    ...STATUSES,
    'disable_reason',
  ),
  'webhook.deleted': ofWebhook('A subscription was deleted.'),
  'webhook.disabled_via_tenant_cascade': payload(
    'A subscription was disabled with its tenant.',
    'subscription_id',
    ...CASCADE,
  ),
  'api_key.created': payload('An API key was made.', ...KEY),
  'api_key.revoked': payload('An API key was revoked.', ...KEY),
  'api_key.revoked_via_tenant_cascade': payload(
    'An API key was revoked with its tenant.',
    'key_id',
    'name',
    ...CASCADE,
  ),
  'api_key.expired': payload('An API key has reached its end.', ...KEY),
  'api_key.permissions_changed': payload('The permissions of an API key changed.', ...KEY),
  'api_key.auth_failed': payload(
    'A key was presented that is not valid.',
    'key_id',
    'key_name',
    'failure_reason',
  ),
  'api_key.auth_failure_rate_spike': payload('More than a share of all authentications fail.', ...SPIKE),
  'policy.created': payload('A policy was made.', 'policy_id', 'name', 'scope_pattern'),
  'policy.updated': payload('A policy changed.', 'policy_id', 'name', 'scope_pattern', 'changed_fields'),
  'quota.threshold_approaching': payload(
    'A quota of calls is used up to its threshold.',
    ...QUOTA,
    'used',
    'threshold_pct',
  ),
  'quota.counter_reset': payload(
    'An operator reset the counter of a quota.',
    ...QUOTA,
    'tenant_id',
    'previous_used',
    'actor_id',
    'reason',
  ),
  'system.store_connection_lost': payload(
    'The connection to Redis was lost; told when it is back.',
    ...SYSTEM,
  ),
  'system.store_connection_restored': payload('The connection to Redis is back.', ...SYSTEM),
  'system.high_latency': payload('An operation takes longer than the threshold.', ...SYSTEM),
  'system.webhook_delivery_failed': payload('A delivery has failed for good.', ...SYSTEM),
  ...CUSTOM_EVENT_PAYLOADS,
} as const satisfies Readonly<Record<string, EventPayload>>;

/** The members of the payload of a type, with what they are there. */
export function membersOfEvent({ members, own = {} }: EventPayload): [name: string, member: EventMember][] {
  return members.map((name) => [name, own[name] ?? EVENT_MEMBERS[name]]);
}
