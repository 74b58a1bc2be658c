import type { ScriptSignature } from './script-signatures.js';

/** The scripts that end reservations whose grace is over, and those that watch over what is left. */
export const EXPIRY_SIGNATURES = {
  expire: {
    keys: ['reservation'],
    args: ['reservation_id', 'retention_ms', 'trace'],
    flags: ['allow-oom'],
  },
  expire_page: {
    keys: ['ttl_index'],
    args: ['retention_ms', 'trace'],
    rest: true,
    flags: ['allow-oom'],
  },
  cleanup_reservations: {
    keys: ['cleanup_index'],
    args: [
      'tenant_id',
      'overdue_for_ms',
      'walked_ms',
      'walked_id',
      'examine',
      'limit',
      'dry_run',
      'reason',
      'retention_ms',
      'request_id',
      'trace',
    ],
    flags: ['allow-oom'],
  },
  sweep_page: {
    keys: ['lease', 'ttl_index'],
    args: ['token', 'lease_ms', 'take', 'skip', 'limit'],
    flags: ['allow-oom'],
  },
  sweep_state: {
    keys: ['lease', 'ttl_index'],
    args: [],
    flags: ['no-writes'],
  },
  inspect_quarantined: {
    keys: ['reservation'],
    args: ['reservation_id'],
    flags: ['no-writes'],
  },
  decide_quarantined: {
    keys: ['reservation'],
    args: ['reservation_id', 'action', 'reason', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  reconcile: {
    keys: ['tenant_index'],
    args: ['tenant', 'walked_ms', 'walked_id', 'tally', 'examine', 'retention_ms', 'trace'],
    rest: true,
    flags: ['allow-oom'],
  },
} as const satisfies Record<string, ScriptSignature>;
