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

/** The categories that tenants may see and subscribe to; the others are the operators' own. */
export const TENANT_EVENT_CATEGORIES = [
  'budget',
  'reservation',
  'tenant',
] as const satisfies readonly EventCategory[];

/** EventType of the same document. Further types begin with `custom.`. */
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
  'system.store_connection_lost',
  'system.store_connection_restored',
  'system.high_latency',
  'system.webhook_delivery_failed',
  'system.webhook_test',
] as const;

/** A type of one's own. */
const CUSTOM_TYPE = /^custom\.[a-z0-9_.]{1,120}$/;

/** Whether there can be events of this type. */
export function isEventType(type: string): boolean {
  return (EVENT_TYPES as readonly string[]).includes(type) || CUSTOM_TYPE.test(type);
}

/**
 * The first segment; of a custom type the second one, as in `custom.reservation.quarantined`. The protocol knows no other
 * categories, so a direct debit counts as the budget's, and whatever is left as the system's, which only operators see.
 * lua/list_events.lua has its twin.
 */
export function categoryOf(eventType: string): EventCategory {
  const [first, second = ''] = eventType.split('.');
  const segment = first === 'custom' ? second : first;
  if (segment === 'direct_debit') {
    return 'budget';
  }
  return EVENT_CATEGORIES.find((category) => category === segment) ?? 'system';
}
