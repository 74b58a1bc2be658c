import type { ScriptSignature } from './script-signatures.js';

/** The scripts of the lists of the governance plane. */
export const LISTING_SIGNATURES = {
  list_tenants: {
    keys: ['tenant_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
  },
  list_policies: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
  list_budgets: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
  list_api_keys: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
  read_texts: {
    keys: ['tenant_index'],
    args: ['kind'],
    rest: true,
    flags: ['no-writes'],
  },
} as const satisfies Record<string, ScriptSignature>;
