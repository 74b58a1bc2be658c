import { beforeAll, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectStatus, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
let tenant: TestTenant;

beforeAll(async () => {
  tenant = await on.holdfast.createTenant();
});

const RUNTIME = ['reservations:create', 'reservations:commit', 'reservations:release', 'reservations:extend'];

/**
 * The table of CAPABILITY DERIVATION, AuthIntrospectResponse of cycles-governance-admin-v0.1.25. A capability
 * that is missing here is true for no key.
 */
const TRUE_WITH: Readonly<Record<string, readonly string[]>> = {
  view_budgets: ['budgets:read', 'admin:read', 'admin:budgets:read'],
  view_policies: ['policies:read', 'admin:read', 'admin:policies:read'],
  view_webhooks: ['webhooks:read', 'admin:read', 'admin:webhooks:read'],
  view_events: ['events:read', 'admin:read', 'admin:events:read'],
  view_reservations: ['reservations:list', ...RUNTIME, 'admin:read'],
  manage_budgets: ['budgets:write', 'admin:write', 'admin:budgets:write'],
  manage_policies: ['policies:write', 'admin:write', 'admin:policies:write'],
  manage_webhooks: ['webhooks:write', 'admin:write', 'admin:webhooks:write'],
  manage_reservations: [...RUNTIME, 'admin:write'],
};

const OTHERS = [
  'balances:read',
  'admin:tenants:read',
  'admin:tenants:write',
  'admin:apikeys:read',
  'admin:apikeys:write',
  'admin:audit:read',
  'action_quotas:read',
];

test.each([...new Set([...Object.values(TRUE_WITH).flat(), ...OTHERS])])(
  'a key with %s alone has the capabilities of the table',
  async (permission) => {
    shows('key capabilities', 'introspectAuth');
    const key = await on.holdfast.createKey(tenant.id, { permissions: [permission] });
    const { capabilities } = expectStatus(await on.holdfast.call('GET', '/v1/auth/introspect', { key }), 200);
    const found = Object.entries(capabilities as Record<string, boolean>)
      .filter(([, value]) => value)
      .map(([name]) => name);
    expect(found.sort()).toEqual(
      Object.keys(TRUE_WITH)
        .filter((name) => TRUE_WITH[name]?.includes(permission))
        .sort(),
    );
    expect(Object.keys(capabilities as object)).toHaveLength(15);
  },
);
