/** What a tenant may own only so much of. `stored_bytes` is an estimate: docs/operations.md has its formula. */
export const TENANT_LIMITS = [
  'live_reservations',
  'budgets',
  'policies',
  'api_keys',
  'webhooks',
  'stored_bytes',
] as const;
export type TenantLimit = (typeof TENANT_LIMITS)[number];
