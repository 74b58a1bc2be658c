import { DELIVERY_SIGNATURES } from './delivery-signatures.js';
import { EVENT_SIGNATURES } from './event-signatures.js';
import { EXPIRY_SIGNATURES } from './expiry-signatures.js';
import { LIMIT_SIGNATURES } from './limit-signatures.js';
import { LISTING_SIGNATURES } from './listing-signatures.js';
import { REPLAY_SIGNATURES } from './replay-signatures.js';
import { WEBHOOK_SIGNATURES } from './webhook-signatures.js';

/**
 * What TypeScript passes to each script, in order. The registry compares this with the header of a script at boot
 * and refuses to start on any difference, so that neither side can drift.
 */
export interface ScriptSignature {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** True when further arguments follow the named ones. */
  readonly rest?: true;
  readonly flags: readonly ('allow-oom' | 'no-writes')[];
}

export const SCRIPT_SIGNATURES = {
  reserve: {
    keys: ['reservation', 'idempotency', 'tenant'],
    args: [
      'tenant_id',
      'reservation_id',
      'fingerprint',
      'unit',
      'amount',
      'overage_policy',
      'ttl_ms',
      'grace_ms',
      'dry_run',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
      'max_live',
      'max_stored',
      'scope_count',
    ],
    rest: true,
    flags: [],
  },
  commit: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id',
      'reservation_id',
      'fingerprint',
      'unit',
      'actual',
      'metadata',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: ['allow-oom'],
  },
  release: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id',
      'reservation_id',
      'fingerprint',
      'reason',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: ['allow-oom'],
  },
  extend: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id',
      'reservation_id',
      'fingerprint',
      'extend_by_ms',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: [],
  },
  get_reservation: {
    keys: ['reservation'],
    args: ['tenant_id', 'reservation_id', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  list_reservations: {
    keys: ['reservation_index'],
    args: [
      'tenant_id',
      'walk_dir',
      'from_ms',
      'to_ms',
      'walked_ms',
      'walked_id',
      'examine',
      'limit',
      'retention_ms',
      'request_id',
      'trace',
    ],
    rest: true,
    flags: ['allow-oom'],
  },
  inspect_reservation: {
    keys: ['reservation'],
    args: ['reservation_id', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  expirations: {
    keys: ['event_log'],
    args: ['start', 'stop', 'examine', 'limit', 'from_ms', 'to_ms', 'tenant_id', 'scope', 'state'],
    flags: ['no-writes'],
  },
  verify_budgets: {
    keys: ['budget_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
  },
  verify_holds: {
    keys: ['reservation_index'],
    args: ['walked_ms', 'walked_id', 'examine', 'first_ms', 'last_ms'],
    rest: true,
    flags: ['no-writes'],
  },
  pack_records: {
    keys: ['ended'],
    args: ['limit'],
    flags: ['allow-oom'],
  },
  trim_reservation_index: {
    keys: ['tenant_index'],
    args: ['tenant', 'walked_ms', 'walked_id', 'examine', 'retention_ms'],
    flags: ['allow-oom'],
  },
  balances: {
    keys: ['budget_index'],
    args: ['after', 'limit', 'examine', 'include_children', 'prefix', 'deepest'],
    rest: true,
    flags: ['no-writes'],
  },
  lease_announce: {
    keys: ['instances', 'reports'],
    args: ['instance', 'lease_ms', 'report'],
    flags: ['allow-oom'],
  },
  lease_release: {
    keys: ['lease'],
    args: ['token'],
    flags: ['allow-oom'],
  },
  lease_instances: {
    keys: ['instances', 'reports'],
    args: [],
    flags: ['no-writes'],
  },
  authenticate: {
    keys: ['secret_hash'],
    args: [],
    flags: ['no-writes'],
  },
  create_tenant: {
    keys: ['tenant', 'tenant_index'],
    args: ['tenant_id', 'name', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
  },
  update_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'status', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
  },
  close_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'phase', 'cursor', 'limit', 'retention_ms', 'channel'],
    flags: ['allow-oom'],
  },
  create_api_key: {
    keys: ['api_key', 'secret_hash', 'api_key_index', 'tenant'],
    args: [
      'tenant_id',
      'key_id',
      'hash',
      'name',
      'permissions',
      'scope_filter',
      'expires_at_ms',
      'default_life_ms',
      'actor',
      'actor_key_id',
      'request_id',
      'trace',
      'max_api_keys',
    ],
    rest: true,
    flags: [],
  },
  update_api_key: {
    keys: ['api_key'],
    args: ['key_id', 'channel', 'actor', 'actor_key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
  },
  validate_api_key: {
    keys: ['secret_hash'],
    args: ['malformed', 'actor', 'actor_key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  revoke_api_key: {
    keys: ['api_key'],
    args: ['key_id', 'reason', 'channel', 'actor', 'actor_key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  create_budget: {
    keys: ['budget', 'budget_index', 'tenant'],
    args: [
      'tenant_id',
      'ledger_id',
      'scope',
      'unit',
      'allocated',
      'overdraft_limit',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'max_budgets',
    ],
    rest: true,
    flags: [],
  },
  fund_budget: {
    keys: ['budget', 'idempotency'],
    args: [
      'tenant_id',
      'scope',
      'unit',
      'operation',
      'amount',
      'spent',
      'fingerprint',
      'idempotency_ttl_ms',
      'reason',
      'metadata',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: [],
  },
  freeze_budget: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'reason', 'metadata', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  unfreeze_budget: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'reason', 'metadata', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  update_budget: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'overdraft_limit', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
  },
  decide: {
    keys: ['idempotency', 'tenant'],
    args: [
      'tenant_id',
      'fingerprint',
      'unit',
      'amount',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
      'scope_count',
    ],
    rest: true,
    flags: [],
  },
  direct_debit: {
    keys: ['idempotency', 'tenant'],
    args: [
      'tenant_id',
      'event_id',
      'fingerprint',
      'unit',
      'actual',
      'overage_policy',
      'idempotency_ttl_ms',
      'retention_ms',
      'key_id',
      'request_id',
      'trace',
      'scope_count',
    ],
    rest: true,
    flags: [],
  },
  create_policy: {
    keys: ['policy', 'policy_index', 'policy_names', 'tenant'],
    args: [
      'tenant_id',
      'policy_id',
      'name',
      'scope_pattern',
      'priority',
      'effective_from',
      'effective_until',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'max_policies',
    ],
    rest: true,
    flags: [],
  },
  update_policy: {
    keys: ['policy'],
    args: ['tenant_id', 'policy_id', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
  },
  ...EXPIRY_SIGNATURES,
  ...WEBHOOK_SIGNATURES,
  ...DELIVERY_SIGNATURES,
  ...EVENT_SIGNATURES,
  ...LISTING_SIGNATURES,
  ...REPLAY_SIGNATURES,
  ...LIMIT_SIGNATURES,
} as const satisfies Record<string, ScriptSignature>;

export type ScriptName = keyof typeof SCRIPT_SIGNATURES;

type Strings<Names extends readonly string[]> = { [Index in keyof Names]: string | number };

export type ScriptKeys<Name extends ScriptName> = Strings<(typeof SCRIPT_SIGNATURES)[Name]['keys']>;
export type ScriptArgs<Name extends ScriptName> = (typeof SCRIPT_SIGNATURES)[Name] extends { rest: true }
  ? [...Strings<(typeof SCRIPT_SIGNATURES)[Name]['args']>, ...(string | number)[]]
  : Strings<(typeof SCRIPT_SIGNATURES)[Name]['args']>;
