import type { ScriptSignature } from './script-signatures.js';

/** The scripts of what tenants may own. */
export const LIMIT_SIGNATURES = {
  inspect_limits: {
    keys: ['tenant', 'owned'],
    args: ['tenant_id'],
    flags: ['no-writes'],
  },
  set_limits: {
    keys: ['tenant', 'owned'],
    args: ['tenant_id', 'operation', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
  },
} as const satisfies Record<string, ScriptSignature>;
