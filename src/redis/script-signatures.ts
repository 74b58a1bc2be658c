/**
 * What TypeScript passes to each script, in order. The registry compares this with the header of `lua/<name>.lua` at boot
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
      'tenant_id', 'reservation_id', 'fingerprint', 'unit', 'amount', 'overage_policy', 'ttl_ms', 'grace_ms', 'dry_run',
      'idempotency_ttl_ms', 'retention_ms', 'key_id', 'request_id', 'trace', 'scope_count',
    ],
    rest: true,
    flags: [],
  },
  commit: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id', 'reservation_id', 'fingerprint', 'unit', 'actual', 'metadata', 'idempotency_ttl_ms', 'retention_ms',
      'key_id', 'request_id', 'trace',
    ],
    flags: ['allow-oom'],
  },
  release: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id', 'reservation_id', 'fingerprint', 'reason', 'idempotency_ttl_ms', 'retention_ms', 'key_id',
      'request_id', 'trace',
    ],
    flags: ['allow-oom'],
  },
  extend: {
    keys: ['reservation', 'idempotency'],
    args: [
      'tenant_id', 'reservation_id', 'fingerprint', 'extend_by_ms', 'idempotency_ttl_ms', 'retention_ms', 'key_id',
      'request_id', 'trace',
    ],
    flags: [],
  },
  get_reservation: {
    keys: ['reservation'],
    args: ['tenant_id', 'reservation_id', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  balances: {
    keys: ['budget_index'],
    args: ['after', 'limit', 'include_children', 'deepest'],
    rest: true,
    flags: ['no-writes'],
  },
  expire: {
    keys: ['reservation'],
    args: ['reservation_id', 'retention_ms', 'trace'],
    flags: ['allow-oom'],
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
  list_tenants: {
    keys: ['tenant_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
  },
  create_api_key: {
    keys: ['api_key', 'secret_hash', 'api_key_index', 'tenant'],
    args: [
      'tenant_id', 'key_id', 'hash', 'name', 'permissions', 'scope_filter', 'expires_at_ms', 'default_life_ms', 'actor',
      'actor_key_id', 'request_id', 'trace',
    ],
    rest: true,
    flags: [],
  },
  revoke_api_key: {
    keys: ['api_key'],
    args: ['key_id', 'reason', 'channel', 'actor', 'actor_key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  list_api_keys: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
  create_budget: {
    keys: ['budget', 'budget_index', 'tenant'],
    args: [
      'tenant_id', 'ledger_id', 'scope', 'unit', 'allocated', 'overdraft_limit', 'actor', 'key_id', 'request_id', 'trace',
    ],
    rest: true,
    flags: [],
  },
  fund_budget: {
    keys: ['budget', 'idempotency', 'tenant'],
    args: [
      'tenant_id', 'scope', 'unit', 'amount', 'fingerprint', 'idempotency_ttl_ms', 'reason', 'metadata', 'actor', 'key_id',
      'request_id', 'trace',
    ],
    flags: [],
  },
  list_budgets: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
} as const satisfies Record<string, ScriptSignature>;

export type ScriptName = keyof typeof SCRIPT_SIGNATURES;

type Strings<Names extends readonly string[]> = { [Index in keyof Names]: string | number };

export type ScriptKeys<Name extends ScriptName> = Strings<(typeof SCRIPT_SIGNATURES)[Name]['keys']>;
export type ScriptArgs<Name extends ScriptName> = (typeof SCRIPT_SIGNATURES)[Name] extends { rest: true }
  ? [...Strings<(typeof SCRIPT_SIGNATURES)[Name]['args']>, ...(string | number)[]]
  : Strings<(typeof SCRIPT_SIGNATURES)[Name]['args']>;
