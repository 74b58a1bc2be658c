import type { Permission } from '../../auth/index.js';

const RUNTIME: readonly Permission[] = [
  'reservations:create',
  'reservations:commit',
  'reservations:release',
  'reservations:extend',
];

/**
 * Which permissions make a capability true for an API key: CAPABILITY DERIVATION of AuthIntrospectResponse in
 * cycles-governance-admin-v0.1.25. Those of operators are false for every API key, whatever it was granted.
 */
const GRANTED_BY = {
  view_overview: [],
  view_budgets: ['budgets:read', 'admin:read', 'admin:budgets:read'],
  view_events: ['events:read', 'admin:read', 'admin:events:read'],
  view_webhooks: ['webhooks:read', 'admin:read', 'admin:webhooks:read'],
  view_audit: [],
  view_tenants: [],
  view_api_keys: [],
  view_policies: ['policies:read', 'admin:read', 'admin:policies:read'],
  view_reservations: ['reservations:list', ...RUNTIME, 'admin:read'],
  manage_budgets: ['budgets:write', 'admin:write', 'admin:budgets:write'],
  manage_policies: ['policies:write', 'admin:write', 'admin:policies:write'],
  manage_webhooks: ['webhooks:write', 'admin:write', 'admin:webhooks:write'],
  manage_tenants: [],
  manage_api_keys: [],
  manage_reservations: [...RUNTIME, 'admin:write'],
} as const satisfies Record<string, readonly Permission[]>;

export type Capabilities = Readonly<Record<keyof typeof GRANTED_BY, boolean>>;

function capabilities(isTrue: (grantedBy: readonly Permission[]) => boolean): Capabilities {
  return Object.fromEntries(
    Object.entries(GRANTED_BY).map(([name, grantedBy]) => [name, isTrue(grantedBy)]),
  ) as Capabilities;
}

/** An operator may do all. */
export const OPERATOR_CAPABILITIES = capabilities(() => true);

export function capabilitiesOf(permissions: ReadonlySet<string>): Capabilities {
  return capabilities((grantedBy) => grantedBy.some((permission) => permissions.has(permission)));
}
