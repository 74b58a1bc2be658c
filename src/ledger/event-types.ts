// The console imports this file, so it imports nothing.

/** EventCategory of cycles-governance-admin-v0.1.25. */
export const EVENT_CATEGORIES = [
  'budget',
  'tenant',
  'api_key',
  'policy',
  'reservation',
  'system',
  'webhook',
] as const;
export type EventCategory = (typeof EVENT_CATEGORIES)[number];

/** The categories that tenants may read and subscribe to. The others are for operators. */
export const TENANT_EVENT_CATEGORIES = [
  'budget',
  'reservation',
  'tenant',
] as const satisfies readonly EventCategory[];

/** EventType of the same document. Other types start with `custom.`. */
export const EVENT_TYPES = [
  'budget.created',
  'budget.updated',
  'budget.funded',
  'budget.debited',
  'budget.reset',
  'budget.reset_spent',
  'budget.debt_repaid',
  'budget.frozen',
  'budget.unfrozen',
  'budget.closed',
  'budget.closed_via_tenant_cascade',
  'budget.threshold_crossed',
  'budget.exhausted',
  'budget.over_limit_entered',
  'budget.over_limit_exited',
  'budget.debt_incurred',
  'budget.burn_rate_anomaly',
  'reservation.denied',
  'reservation.observed_denied',
  'reservation.observed_allowed',
  'reservation.denial_rate_spike',
  'reservation.expired',
  'reservation.expiry_rate_spike',
  'reservation.commit_overage',
  'reservation.released_via_tenant_cascade',
  'tenant.created',
  'tenant.updated',
  'tenant.suspended',
  'tenant.reactivated',
  'tenant.closed',
  'tenant.settings_changed',
  'webhook.created',
  'webhook.updated',
  'webhook.paused',
  'webhook.resumed',
  'webhook.disabled',
  'webhook.deleted',
  'webhook.disabled_via_tenant_cascade',
  'api_key.created',
  'api_key.revoked',
  'api_key.revoked_via_tenant_cascade',
  'api_key.expired',
  'api_key.permissions_changed',
  'api_key.auth_failed',
  'api_key.auth_failure_rate_spike',
  'policy.created',
  'policy.updated',
  'policy.deleted',
  'quota.threshold_approaching',
  'quota.counter_reset',
  'system.store_connection_lost',
  'system.store_connection_restored',
  'system.high_latency',
  'system.webhook_delivery_failed',
  'system.webhook_test',
] as const;

/** The types that Holdfast adds. Subscriptions get them by their categories, because the protocol's lists of types have no place for them. */
export const CUSTOM_EVENT_TYPES = [
  'custom.budget_template.created',
  'custom.budget_template.updated',
  'custom.budget_template.deleted',
  'custom.credit.ended',
  'custom.credit.ending',
  'custom.credit.exhausted',
  'custom.credit.granted',
  'custom.credit.started',
  'custom.credit.voided',
  'custom.direct_debit.applied',
  'custom.direct_debit.denied',
  'custom.direct_debit.refunded',
  'custom.reservation.quarantined',
  'custom.reservation.quarantine_decided',
  'custom.reservation.refunded',
  'custom.reservation.reindexed',
] as const;

const CUSTOM_TYPE = /^custom\.[a-z0-9_.]{1,120}$/;

/** Whether this is an event type of the protocol or a well-formed custom one. */
export function isEventType(type: string): boolean {
  return (EVENT_TYPES as readonly string[]).includes(type) || CUSTOM_TYPE.test(type);
}

/**
 * The category is the first segment of the type, or the second one of a custom type, as in `custom.reservation.quarantined`. Direct
 * debits and credits have no category in the protocol and belong to `budget`, and quotas to `policy`; all others belong to `system`, which only operators can read.
 * lua/events/list_events.lua implements the same rule.
 */
export function categoryOf(eventType: string): EventCategory {
  const [first, second = ''] = eventType.split('.');
  const segment = first === 'custom' ? second : first;
  if (segment === 'direct_debit' || segment === 'credit') {
    return 'budget';
  }
  if (segment === 'quota') {
    return 'policy';
  }
  return EVENT_CATEGORIES.find((category) => category === segment) ?? 'system';
}
