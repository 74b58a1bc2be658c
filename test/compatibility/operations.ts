/**
 * The operations of the protocol's documents, in the order of the page. Operations that are not served have
 * the reason.
 */
export const OPERATIONS = {
  decide: { method: 'POST', path: '/v1/decide' },
  createReservation: { method: 'POST', path: '/v1/reservations' },
  listReservations: { method: 'GET', path: '/v1/reservations' },
  getReservation: { method: 'GET', path: '/v1/reservations/{reservation_id}' },
  commitReservation: { method: 'POST', path: '/v1/reservations/{reservation_id}/commit' },
  releaseReservation: { method: 'POST', path: '/v1/reservations/{reservation_id}/release' },
  extendReservation: { method: 'POST', path: '/v1/reservations/{reservation_id}/extend' },
  getBalances: {
    method: 'GET',
    path: '/v1/balances',
    note: 'Both views, see [compatibility](../compatibility.md#two-operations-on-one-path).',
  },
  createEvent: { method: 'POST', path: '/v1/events' },
  getEvidence: { method: 'GET', path: '/v1/evidence/{evidence_id}' },
  getEvidenceJwks: { method: 'GET', path: '/v1/.well-known/cycles-jwks.json' },
  createTenant: { method: 'POST', path: '/v1/admin/tenants' },
  listTenants: { method: 'GET', path: '/v1/admin/tenants' },
  getTenant: { method: 'GET', path: '/v1/admin/tenants/{tenant_id}' },
  updateTenant: { method: 'PATCH', path: '/v1/admin/tenants/{tenant_id}' },
  bulkActionTenants: { method: 'POST', path: '/v1/admin/tenants/bulk-action' },
  createBudget: { method: 'POST', path: '/v1/admin/budgets' },
  listBudgets: { method: 'GET', path: '/v1/admin/budgets' },
  updateBudget: { method: 'PATCH', path: '/v1/admin/budgets' },
  freezeBudget: { method: 'POST', path: '/v1/admin/budgets/freeze' },
  unfreezeBudget: { method: 'POST', path: '/v1/admin/budgets/unfreeze' },
  fundBudget: { method: 'POST', path: '/v1/admin/budgets/fund' },
  lookupBudget: { method: 'GET', path: '/v1/admin/budgets/lookup' },
  bulkActionBudgets: { method: 'POST', path: '/v1/admin/budgets/bulk-action' },
  createPolicy: { method: 'POST', path: '/v1/admin/policies' },
  listPolicies: { method: 'GET', path: '/v1/admin/policies' },
  updatePolicy: { method: 'PATCH', path: '/v1/admin/policies/{policy_id}' },
  listActionKinds: { method: 'GET', path: '/v1/action-kinds' },
  getActionKind: { method: 'GET', path: '/v1/action-kinds/{kind}' },
  listActionQuotaCounters: { method: 'GET', path: '/v1/admin/action-quota-counters' },
  resetActionQuotaCounter: { method: 'POST', path: '/v1/admin/action-quota-counters/reset' },
  createApiKey: { method: 'POST', path: '/v1/admin/api-keys' },
  listApiKeys: { method: 'GET', path: '/v1/admin/api-keys' },
  updateApiKey: { method: 'PATCH', path: '/v1/admin/api-keys/{key_id}' },
  revokeApiKey: { method: 'DELETE', path: '/v1/admin/api-keys/{key_id}' },
  validateApiKey: { method: 'POST', path: '/v1/auth/validate' },
  introspectAuth: { method: 'GET', path: '/v1/auth/introspect' },
  listAuditLogs: { method: 'GET', path: '/v1/admin/audit/logs' },
  getAdminOverview: { method: 'GET', path: '/v1/admin/overview' },
  listEvents: { method: 'GET', path: '/v1/admin/events' },
  getEvent: { method: 'GET', path: '/v1/admin/events/{event_id}' },
  listTenantEvents: { method: 'GET', path: '/v1/events' },
  createWebhookSubscription: { method: 'POST', path: '/v1/admin/webhooks' },
  listWebhookSubscriptions: { method: 'GET', path: '/v1/admin/webhooks' },
  getWebhookSubscription: { method: 'GET', path: '/v1/admin/webhooks/{subscription_id}' },
  updateWebhookSubscription: { method: 'PATCH', path: '/v1/admin/webhooks/{subscription_id}' },
  deleteWebhookSubscription: { method: 'DELETE', path: '/v1/admin/webhooks/{subscription_id}' },
  testWebhookSubscription: { method: 'POST', path: '/v1/admin/webhooks/{subscription_id}/test' },
  listWebhookDeliveries: { method: 'GET', path: '/v1/admin/webhooks/{subscription_id}/deliveries' },
  replayEvents: { method: 'POST', path: '/v1/admin/webhooks/{subscription_id}/replay' },
  bulkActionWebhooks: { method: 'POST', path: '/v1/admin/webhooks/bulk-action' },
  getWebhookSecurityConfig: { method: 'GET', path: '/v1/admin/config/webhook-security' },
  updateWebhookSecurityConfig: { method: 'PUT', path: '/v1/admin/config/webhook-security' },
  createTenantWebhook: { method: 'POST', path: '/v1/webhooks' },
  listTenantWebhooks: { method: 'GET', path: '/v1/webhooks' },
  getTenantWebhook: { method: 'GET', path: '/v1/webhooks/{subscription_id}' },
  updateTenantWebhook: { method: 'PATCH', path: '/v1/webhooks/{subscription_id}' },
  deleteTenantWebhook: { method: 'DELETE', path: '/v1/webhooks/{subscription_id}' },
  testTenantWebhook: { method: 'POST', path: '/v1/webhooks/{subscription_id}/test' },
  listTenantWebhookDeliveries: { method: 'GET', path: '/v1/webhooks/{subscription_id}/deliveries' },
} as const satisfies Record<string, Operation>;

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly note?: string;
  readonly whyNot?: string;
}

export const SERVED: readonly string[] = operationsWhere((whyNot) => whyNot === undefined);
export const NOT_SERVED: readonly string[] = operationsWhere((whyNot) => whyNot !== undefined);

function operationsWhere(holds: (whyNot: string | undefined) => boolean): string[] {
  return Object.entries<Operation>(OPERATIONS)
    .filter(([, { whyNot }]) => holds(whyNot))
    .map(([id]) => id);
}
