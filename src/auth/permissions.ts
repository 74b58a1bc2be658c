/** Permission of cycles-governance-admin-v0.1.25, and PermissionExtension of cycles-governance-extensions-v0.1.26. */
export const PERMISSIONS = [
  'reservations:create',
  'reservations:commit',
  'reservations:release',
  'reservations:extend',
  'reservations:list',
  'balances:read',
  'budgets:read',
  'budgets:write',
  'policies:read',
  'policies:write',
  'webhooks:read',
  'webhooks:write',
  'events:read',
  'admin:read',
  'admin:write',
  'admin:tenants:read',
  'admin:tenants:write',
  'admin:budgets:read',
  'admin:budgets:write',
  'admin:policies:read',
  'admin:policies:write',
  'admin:apikeys:read',
  'admin:apikeys:write',
  'admin:webhooks:read',
  'admin:webhooks:write',
  'admin:events:read',
  'admin:audit:read',
  'action_quotas:read',
  'usage:read',
  'refunds:create',
] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** The permissions of a key that is created without naming any. */
export const DEFAULT_PERMISSIONS: readonly Permission[] = [
  'reservations:create',
  'reservations:commit',
  'reservations:release',
  'reservations:extend',
  'reservations:list',
  'balances:read',
  'budgets:read',
  'budgets:write',
  'policies:read',
  'policies:write',
];

/** Whether the granted permissions include the needed one. `admin:write` implies every `*:write`, `admin:read` every `*:read`. */
export function grants(granted: ReadonlySet<string>, needed: Permission): boolean {
  if (granted.has(needed)) {
    return true;
  }
  if (needed.endsWith(':write')) {
    return granted.has('admin:write');
  }
  return needed.endsWith(':read') && granted.has('admin:read');
}

const LEGACY =
  'Kept for old keys of the protocol; sets the capability of that name, if there is one. No operation needs it';

/** What each permission lets a key do. docs/api-keys.md and the API's documentation show it. */
export const PERMISSION_WORDS: Readonly<Record<Permission, string>> = {
  'reservations:create': 'Reserve, including dry runs, and decide',
  'reservations:commit': 'Commit a reservation, and charge usage without one (`POST /v1/events`)',
  'reservations:release': 'Release a reservation',
  'reservations:extend': 'Extend a reservation',
  'reservations:list': 'Read and list reservations',
  'balances:read': 'Read balances',
  'budgets:read': 'List and look up budgets',
  'budgets:write': 'Create, change, fund, freeze and unfreeze budgets',
  'policies:read': 'List policies',
  'policies:write': 'Create and change policies',
  'webhooks:read': 'Read and list webhook subscriptions and their deliveries',
  'webhooks:write': 'Create, change, delete and test webhook subscriptions',
  'events:read': 'List events (`GET /v1/events`)',
  'admin:read': 'Implies every permission that ends with `:read`',
  'admin:write': 'Implies every permission that ends with `:write`, and no `:read`',
  'admin:tenants:read': LEGACY,
  'admin:tenants:write': LEGACY,
  'admin:budgets:read': LEGACY,
  'admin:budgets:write': LEGACY,
  'admin:policies:read': LEGACY,
  'admin:policies:write': LEGACY,
  'admin:apikeys:read': LEGACY,
  'admin:apikeys:write': LEGACY,
  'admin:webhooks:read': LEGACY,
  'admin:webhooks:write': LEGACY,
  'admin:events:read': LEGACY,
  'admin:audit:read': LEGACY,
  'action_quotas:read': 'List counters of action quotas. `balances:read` does as well in this version',
  'usage:read': 'Report what was spent, by time, scope, action and more (`GET /v1/usage`)',
  'refunds:create': 'Refund what a reservation or a direct debit was charged',
};

/** A list of the permissions in Markdown. */
export function permissionList(): string {
  return PERMISSIONS.map((permission) => `- \`${permission}\`: ${PERMISSION_WORDS[permission]}`).join('\n');
}
