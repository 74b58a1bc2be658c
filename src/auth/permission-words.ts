import { PERMISSIONS, type Permission } from './permissions.js';

const LEGACY =
  'Of the protocol for old keys. Makes a capability of the same name true where there is one; no operation needs it';

/** What each permission lets a key do. The README's table and the API's documentation are made of it. */
export const PERMISSION_WORDS: Readonly<Record<Permission, string>> = {
  'reservations:create': 'Reserve, dry runs included, and decide',
  'reservations:commit': 'Commit a reservation, and charge what was used without one (`POST /v1/events`)',
  'reservations:release': 'Release a reservation',
  'reservations:extend': 'Extend a reservation',
  'reservations:list': 'Read one reservation, and list them',
  'balances:read': 'Read balances',
  'budgets:read': 'List and look up budgets',
  'budgets:write': 'Create, change, fund, freeze and unfreeze budgets',
  'policies:read': 'List policies',
  'policies:write': 'Create and change policies',
  'webhooks:read': 'Read and list webhook subscriptions and their deliveries',
  'webhooks:write': 'Create, change, delete and test webhook subscriptions',
  'events:read': 'List events (`GET /v1/events`)',
  'admin:read': 'Stands for every permission that ends with `:read`',
  'admin:write': 'Stands for every permission that ends with `:write`, and for no `:read`',
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
};

/** The same as a list in Markdown. */
export function permissionList(): string {
  return PERMISSIONS.map((permission) => `- \`${permission}\`: ${PERMISSION_WORDS[permission]}`).join('\n');
}
