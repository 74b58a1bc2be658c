/** Permission of cycles-governance-admin-v0.1.25. */
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
] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** What a key may do when its creation names no permissions. */
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

/** Whether granted permissions satisfy a needed one. `admin:write` stands for every `*:write`, `admin:read` for every `*:read`. */
export function grants(granted: ReadonlySet<string>, needed: Permission): boolean {
  if (granted.has(needed)) {
    return true;
  }
  if (needed.endsWith(':write')) {
    return granted.has('admin:write');
  }
  return needed.endsWith(':read') && granted.has('admin:read');
}
