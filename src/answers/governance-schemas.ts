import {
  EVENT_CATEGORIES,
  MAX_TTL_MS,
  MIN_TTL_MS,
  QUOTA_WINDOWS,
  RISK_CLASSES,
  UNITS,
} from '../ledger/index.js';
import {
  bulkResponse,
  COUNT,
  FLAG,
  FREE,
  INT64,
  kept,
  list,
  mapOf,
  object,
  oneOf,
  PAGE,
  ref,
  TEXT,
  TIME,
  TRACE_ID,
} from './parts.js';

const AMOUNT = ref('Amount');
const POLICY = ref('CommitOveragePolicy');
const NAME = { type: 'string', maxLength: 256 } as const;
const DESCRIPTION = { type: 'string', maxLength: 1024 } as const;
const REASON = { type: 'string', maxLength: 512 } as const;
const TTL_MS = { type: 'integer', minimum: MIN_TTL_MS, maximum: MAX_TTL_MS } as const;
const RATE = { type: 'integer', minimum: 1 } as const;
const PERMISSIONS = list(TEXT);
const UNIT = kept(...UNITS);

const KIND = { type: 'string', maxLength: 64 } as const;
const CALLS = { type: 'integer', minimum: 1, maximum: 100_000 } as const;
const QUOTA_SOMETIMES = {
  per_run_counter_ttl_ms: { type: 'integer', minimum: 60_000, maximum: 604_800_000 },
  threshold_pct: { type: 'number', format: 'double', minimum: 0.01, maximum: 0.99 },
} as const;

const VIEWS = [
  'overview',
  'budgets',
  'events',
  'webhooks',
  'audit',
  'tenants',
  'api_keys',
  'policies',
  'reservations',
].map((page) => `view_${page}`);
const POWERS = ['budgets', 'policies', 'webhooks', 'tenants', 'api_keys', 'reservations'].map(
  (area) => `manage_${area}`,
);

/** The answers of the governance plane: cycles-governance-admin-v0.1.25. */
export const GOVERNANCE_SCHEMAS = {
  Tenant: object(
    {
      tenant_id: { type: 'string', pattern: '^[a-z0-9-]+$', minLength: 3, maxLength: 64 },
      name: NAME,
      status: oneOf('ACTIVE', 'SUSPENDED', 'CLOSED'),
      default_commit_overage_policy: POLICY,
      default_reservation_ttl_ms: TTL_MS,
      max_reservation_ttl_ms: TTL_MS,
      max_reservation_extensions: COUNT,
      reservation_expiry_policy: oneOf('AUTO_RELEASE', 'MANUAL_CLEANUP', 'GRACE_ONLY'),
      observe_mode: oneOf('DISABLED', 'OBSERVE', 'ENFORCE'),
      created_at: TIME,
      updated_at: TIME,
    },
    {
      parent_tenant_id: TEXT,
      metadata: { ...mapOf(TEXT), maxProperties: 32 },
      suspended_at: TIME,
      closed_at: TIME,
    },
  ),
  TenantListResponse: object({ tenants: list(ref('Tenant')), has_more: FLAG }, PAGE),
  BulkActionRowOutcome: object({ id: TEXT }, { error_code: TEXT, message: TEXT, reason: TEXT }),
  TenantBulkActionResponse: bulkResponse('SUSPEND', 'REACTIVATE', 'CLOSE'),
  BudgetLedger: object(
    {
      ledger_id: TEXT,
      tenant_id: TEXT,
      scope: TEXT,
      scope_path: TEXT,
      unit: UNIT,
      allocated: AMOUNT,
      remaining: ref('SignedAmount'),
      reserved: AMOUNT,
      spent: AMOUNT,
      debt: AMOUNT,
      overdraft_limit: AMOUNT,
      is_over_limit: FLAG,
      status: oneOf('ACTIVE', 'FROZEN', 'CLOSED'),
      rollover_policy: kept('NONE', 'CARRY_FORWARD', 'CAP_AT_ALLOCATED'),
      created_at: TIME,
      updated_at: TIME,
    },
    { commit_overage_policy: POLICY, period_start: TIME, period_end: TIME },
  ),
  BudgetListResponse: object({ ledgers: list(ref('BudgetLedger')), has_more: FLAG }, PAGE),
  BudgetBulkActionResponse: bulkResponse('CREDIT', 'DEBIT', 'RESET', 'REPAY_DEBT', 'RESET_SPENT'),
  BudgetFundingResponse: object(
    {
      operation: TEXT,
      previous_allocated: AMOUNT,
      new_allocated: AMOUNT,
      previous_remaining: ref('SignedAmount'),
      new_remaining: ref('SignedAmount'),
    },
    { previous_debt: AMOUNT, new_debt: AMOUNT, previous_spent: AMOUNT, new_spent: AMOUNT, timestamp: TIME },
  ),
  ApiKey: object(
    {
      key_id: TEXT,
      tenant_id: TEXT,
      key_prefix: TEXT,
      name: NAME,
      permissions: PERMISSIONS,
      scope_filter: list(TEXT),
      status: oneOf('ACTIVE', 'REVOKED', 'EXPIRED'),
      created_at: TIME,
      expires_at: TIME,
    },
    {
      description: DESCRIPTION,
      last_used_at: TIME,
      revoked_at: TIME,
      revoked_reason: REASON,
      metadata: FREE,
    },
  ),
  ApiKeyCreateResponse: object({
    key_id: TEXT,
    key_secret: { type: 'string', description: 'Shown this once; only its hash is kept.' },
    key_prefix: TEXT,
    tenant_id: TEXT,
    permissions: PERMISSIONS,
    scope_filter: list(TEXT),
    created_at: TIME,
    expires_at: TIME,
  }),
  ApiKeyListResponse: object({ keys: list(ref('ApiKey')), has_more: FLAG }, PAGE),
  ApiKeyValidationResponse: object(
    { valid: FLAG, tenant_id: TEXT },
    { key_id: TEXT, permissions: PERMISSIONS, scope_filter: list(TEXT), expires_at: TIME, reason: TEXT },
  ),
  AuthIntrospectResponse: object(
    {
      authenticated: FLAG,
      auth_type: oneOf('admin', 'tenant'),
      permissions: PERMISSIONS,
      capabilities: object(Object.fromEntries([...VIEWS, ...POWERS].map((name) => [name, FLAG]))),
    },
    { tenant_id: TEXT, scope_filter: list(TEXT) },
  ),
  ActionQuota: object(
    { action_kind: KIND, max_calls: CALLS, window: oneOf(...QUOTA_WINDOWS) },
    {
      host_allowlist: list(TEXT),
      recipient_domain_allowlist: list(TEXT),
      resource_type_allowlist: list(TEXT),
      ...QUOTA_SOMETIMES,
    },
  ),
  RiskClassQuota: object(
    { risk_class: oneOf(...RISK_CLASSES), max_calls: CALLS, window: oneOf(...QUOTA_WINDOWS) },
    QUOTA_SOMETIMES,
  ),
  Policy: object(
    {
      policy_id: TEXT,
      name: NAME,
      scope_pattern: TEXT,
      priority: COUNT,
      status: oneOf('ACTIVE', 'DISABLED'),
      action_quotas: list(ref('ActionQuota')),
      risk_class_quotas: list(ref('RiskClassQuota')),
      allowed_action_kinds: list(KIND),
      denied_action_kinds: list(KIND),
      created_at: TIME,
    },
    {
      description: DESCRIPTION,
      caps: ref('Caps'),
      commit_overage_policy: POLICY,
      reservation_ttl_override: object(
        {},
        { default_ttl_ms: TTL_MS, max_ttl_ms: TTL_MS, max_extensions: COUNT },
      ),
      rate_limits: object({}, { max_reservations_per_minute: RATE, max_commits_per_minute: RATE }),
      effective_from: TIME,
      effective_until: TIME,
      updated_at: TIME,
    },
  ),
  PolicyListResponse: object({ policies: list(ref('Policy')), has_more: FLAG }, PAGE),
  AuditLogEntry: object(
    { log_id: TEXT, timestamp: TIME, tenant_id: TEXT, operation: TEXT, status: { type: 'integer' } },
    {
      key_id: TEXT,
      user_agent: TEXT,
      source_ip: TEXT,
      resource_type: TEXT,
      resource_id: TEXT,
      request_id: TEXT,
      trace_id: TRACE_ID,
      error_code: TEXT,
      metadata: FREE,
    },
  ),
  AuditLogListResponse: object({ logs: list(ref('AuditLogEntry')), has_more: FLAG }, PAGE),
  Event: object(
    {
      event_id: { type: 'string', pattern: '^evt_[0-9a-f]{16,29}$' },
      event_type: { ...TEXT, description: "One of the protocol's types, or one that begins with custom." },
      category: oneOf(...EVENT_CATEGORIES),
      timestamp: TIME,
      tenant_id: TEXT,
      source: TEXT,
      data: {
        ...FREE,
        description: 'Its members depend on the type: the EventData schemas of the protocol.',
      },
    },
    {
      scope: TEXT,
      actor: object(
        { type: kept('admin', 'api_key', 'admin_on_behalf_of', 'system', 'scheduler') },
        { key_id: TEXT },
      ),
      correlation_id: TEXT,
      request_id: TEXT,
      trace_id: TRACE_ID,
      metadata: FREE,
    },
  ),
  AdminOverviewResponse: object(
    {
      as_of: { ...TIME, description: 'When the records were counted.' },
      event_window_seconds: {
        ...COUNT,
        description: '3600; less while the events of the last hour are still being counted.',
      },
      tenant_counts: object(
        { total: COUNT, active: COUNT, suspended: COUNT, closed: COUNT },
        { in_observe_mode: COUNT },
      ),
      budget_counts: object({
        total: COUNT,
        active: COUNT,
        frozen: COUNT,
        closed: COUNT,
        over_limit: COUNT,
        with_debt: COUNT,
        by_unit: mapOf(COUNT),
      }),
      over_limit_scopes: list(
        object({ scope: TEXT, unit: UNIT, allocated: INT64, remaining: INT64, debt: INT64 }),
      ),
      debt_scopes: list(object({ scope: TEXT, unit: UNIT, debt: INT64, overdraft_limit: INT64 })),
      held_by_unit: {
        ...mapOf(INT64),
        description: 'What live reservations hold, by unit. Not in the protocol.',
      },
      webhook_counts: object({ total: COUNT, active: COUNT, disabled: COUNT, with_failures: COUNT }),
      failing_webhooks: list(
        object({ subscription_id: TEXT, url: TEXT, consecutive_failures: COUNT }, { last_failure_at: TIME }),
      ),
      event_counts: object({ total_recent: COUNT, by_category: mapOf(COUNT) }),
      recent_denials: list(ref('Event')),
      recent_expiries: list(ref('Event')),
    },
    {
      recent_denials_by_reason: mapOf(COUNT),
      quota_health: object(
        {},
        {
          counters_above_80pct: COUNT,
          counters_at_limit: COUNT,
          top_offenders: list(
            object(
              { scope: TEXT, action_kind: TEXT, used: INT64, limit: INT64 },
              { window: TEXT, utilization_pct: { type: 'number', format: 'double' } },
            ),
          ),
        },
      ),
      access_control_stats: object({}, { policies_with_allow_list: COUNT, policies_with_deny_list: COUNT }),
    },
  ),
  EventListResponse: object({ events: list(ref('Event')), has_more: FLAG }, PAGE),
} as const;
