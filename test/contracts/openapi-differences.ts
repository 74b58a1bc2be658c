/**
 * A deliberate difference between our OpenAPI document and the protocol's, with the reason. The test fails if
 * a listed difference no longer exists.
 */
export interface Difference {
  /** Operation ids, or `all` for every operation with this difference. */
  readonly operations: readonly string[] | 'all';
  /** Where in the request; missing if the difference concerns the operation as a whole. */
  readonly fields?: readonly string[];
  /** In the words of the comparison. */
  readonly says: string;
  readonly reason: string;
}

type Operations = Difference['operations'];

/** Limits such as `maxLength is 256` that the protocol does not have. */
function limited(
  operations: Operations,
  fields: readonly string[],
  limits: readonly string[],
  reason: string,
): Difference[] {
  return limits.map((limit) => ({
    operations,
    fields,
    says: `${limit}, the protocol's is undefined`,
    reason,
  }));
}

const LEVELS = ['workspace', 'app', 'workflow', 'agent', 'toolset'];
const SEGMENT =
  'the levels of a subject become segments of scopes, for which the protocol recommends this pattern; others would be ambiguous there';
const SEGMENT_LIMITS = ['minLength is 1', 'pattern is ^[a-zA-Z0-9_.-]+$'];
const NOT_EMPTY = 'an empty string names nothing';
const BOUNDED = 'what is stored, or searched through, needs a bound, which the protocol leaves to the server';
const AS_ANSWERED = 'the schema of the response that returns it has this bound';
const TENANT_ID = 'no tenant can have a different id, so a mistake is reported immediately';
const ENDLESS = 'pages without rows would never reach the end';
const COUNTED = 'it is stored as a count';
const INT64 = 'numbers are exact up to int64, and no further';
const SAFE = 'maximum is 9007199254740991';
const EXACT = 'JSON numbers are exact up to 2^53 - 1, and no reader of this one needs more';
const POLICY_WRITES = ['createPolicy', 'updatePolicy'];

const RUNTIME: readonly Difference[] = [
  ...limited(
    ['commitReservation', 'createEvent'],
    ['metrics.tokens_input', 'metrics.tokens_output', 'metrics.latency_ms'],
    [SAFE],
    EXACT,
  ),
  ...limited(
    'all',
    ['tenant', ...LEVELS].map((level) => `subject.${level}`),
    SEGMENT_LIMITS,
    SEGMENT,
  ),
  ...limited(['getBalances', 'listReservations'], LEVELS, ['maxLength is 128', ...SEGMENT_LIMITS], SEGMENT),
  ...limited(['getBalances'], ['tenant'], ['maxLength is 128', ...SEGMENT_LIMITS], SEGMENT),
  ...['tenant_id', 'scope_prefix', 'unit'].map((name): Difference => ({
    operations: ['getBalances'],
    says: `query ${name} is unknown to the protocol`,
    reason: 'the governance document has the same operation with this filter, and one process serves both',
  })),
  {
    operations: ['createReservation', 'commitReservation', 'createEvent'],
    says: 'header X-Holdfast-Explain is unknown to the protocol',
    reason: 'clients that send it get more in the details of a refusal; for others nothing changes',
  },
  {
    operations: ['createReservation'],
    says: 'header X-Holdfast-Charge-On-Expiry is unknown to the protocol',
    reason: 'clients that send it say what their hold costs if it expires; for others nothing changes',
  },
  {
    operations: ['createReservation'],
    says: 'header X-Holdfast-Wait-Ms is unknown to the protocol',
    reason: 'clients that send it wait for funds instead of retrying; for others nothing changes',
  },
  {
    operations: ['getEvidenceJwks'],
    says: "200 keys[].cycles_exp_ms: the type is integer, the protocol's is integer,null",
    reason: 'a key without an end lacks the member, as the protocol allows',
  },
  ...limited('all', ['action.kind', 'action.name'], ['minLength is 1'], NOT_EMPTY),
  ...limited('all', ['action.name'], ['pattern is \\S'], 'a blank name names nothing'),
];

const TENANTS: readonly Difference[] = [
  ...(
    [
      ['listTenants', 'observe_mode'],
      ['bulkActionTenants', 'filter.observe_mode'],
    ] as const
  ).map(([operation, field]): Difference => ({
    operations: [operation],
    fields: [field],
    says: 'the values also hold DISABLED, OBSERVE, ENFORCE',
    reason: "the extension's document lists these values in its prose",
  })),
  {
    operations: ['listTenants'],
    fields: ['limit'],
    says: "maximum is 9007199254740991, the protocol's is 100",
    reason: 'dashboards ask for 1000; a larger limit counts as 100 instead of being refused',
  },
  {
    operations: ['createTenant'],
    fields: ['tenant_id'],
    says: "pattern is ^[a-z0-9-]{3,64}$, the protocol's is ^[a-z0-9-]+$",
    reason: "our pattern includes the protocol's lengths",
  },
  {
    operations: ['createTenant'],
    fields: ['tenant_id'],
    says: "minLength is undefined, the protocol's is 3",
    reason: 'the pattern includes it',
  },
  {
    operations: ['createTenant'],
    fields: ['tenant_id'],
    says: "maxLength is undefined, the protocol's is 64",
    reason: 'the pattern includes it',
  },
  ...limited(['createTenant'], ['parent_tenant_id'], ['pattern is ^[a-z0-9-]{3,64}$'], TENANT_ID),
  ...limited(['createTenant', 'updateTenant'], ['name'], ['minLength is 1'], NOT_EMPTY),
  ...limited(['createTenant', 'updateTenant'], ['metadata'], ['maxProperties is 32'], AS_ANSWERED),
  ...limited(['updateTenant'], ['name'], ['maxLength is 256'], AS_ANSWERED),
  ...limited(['createTenant'], ['metadata.*'], ['maxLength is 8192'], BOUNDED),
  ...limited(
    ['createTenant', 'updateTenant'],
    ['max_reservation_extensions'],
    ['maximum is 2147483647'],
    COUNTED,
  ),
];

const BUDGETS: readonly Difference[] = [
  ...limited(['createBudget'], ['tenant_id'], ['pattern is ^[a-z0-9-]{3,64}$'], TENANT_ID),
  {
    operations: ['bulkActionBudgets'],
    fields: ['body'],
    says: 'required members also hold amount',
    reason: 'the protocol requires it for each of the five actions, in the description of the member',
  },
  ...limited(['bulkActionBudgets'], ['filter.tenant_id'], ['pattern is ^[a-z0-9-]{3,64}$'], TENANT_ID),
  ...limited(['bulkActionBudgets'], ['filter.scope_prefix'], ['maxLength is 1024'], BOUNDED),
  ...limited(['listBudgets'], ['scope_prefix'], ['maxLength is 1024'], BOUNDED),
  {
    operations: ['listBudgets'],
    fields: ['sort_by'],
    says: 'the values also hold used',
    reason: 'utilization leaves out what is held, which nobody else can use either',
  },
  ...limited(['listBudgets'], ['limit'], ['minimum is 1'], ENDLESS),
  ...limited(['listBudgets'], ['limit'], [SAFE], EXACT),
  ...limited('all', ['scope'], ['minLength is 1'], NOT_EMPTY),
  ...limited('all', ['scope'], ['maxLength is 1024'], BOUNDED),
];

const API_KEYS: readonly Difference[] = [
  ...limited(['listApiKeys'], ['limit'], ['minimum is 1'], ENDLESS),
  ...limited(['listApiKeys'], ['limit'], [SAFE], EXACT),
  ...limited(['createApiKey'], ['tenant_id'], ['pattern is ^[a-z0-9-]{3,64}$'], TENANT_ID),
  ...limited(['createApiKey', 'updateApiKey'], ['name'], ['minLength is 1'], NOT_EMPTY),
  ...limited(['createApiKey'], ['name'], ['maxLength is 256'], AS_ANSWERED),
  ...limited(['createApiKey', 'updateApiKey'], ['scope_filter[]'], ['maxLength is 1024'], BOUNDED),
  ...limited(['createApiKey'], ['description'], ['maxLength is 1024'], AS_ANSWERED),
  ...limited(['validateApiKey'], ['key_secret'], ['minLength is 0', 'maxLength is 1024'], BOUNDED),
  {
    operations: ['validateApiKey'],
    fields: ['body'],
    says: 'other members are refused, unlike in the protocol',
    reason: 'an unknown member is a mistake, here as everywhere else',
  },
  ...limited(['createApiKey', 'updateApiKey'], ['permissions', 'scope_filter'], ['maxItems is 100'], BOUNDED),
  {
    operations: ['createApiKey'],
    says: '201 body: the protocol has no member scope_filter',
    reason:
      'the creator of a key sees how it is confined; the protocol allows further members in this response',
  },
];

const KIND_LISTS = ['allowed_action_kinds[]', 'denied_action_kinds[]'];
const ALLOWLISTS = ['host', 'recipient_domain', 'resource_type'].map(
  (name) => `action_quotas[].${name}_allowlist`,
);

const POLICIES: readonly Difference[] = [
  ...limited(POLICY_WRITES, [...KIND_LISTS, 'action_quotas[].action_kind'], ['minLength is 1'], NOT_EMPTY),
  ...limited(POLICY_WRITES, ALLOWLISTS, ['maxItems is 50'], BOUNDED),
  ...['search', 'sort_dir'].map((name): Difference => ({
    operations: ['listPolicies'],
    says: `query ${name} is unknown to the protocol`,
    reason: 'every other list of the plane takes it, and clients that do not know it lose nothing',
  })),
  ...limited(['listPolicies'], ['limit'], ['minimum is 1'], ENDLESS),
  ...limited(['listPolicies'], ['limit'], [SAFE], EXACT),
  ...limited(['listPolicies', 'createPolicy'], ['scope_pattern'], ['maxLength is 1024'], BOUNDED),
  ...limited(['createPolicy'], ['scope_pattern'], ['minLength is 1'], NOT_EMPTY),
  ...limited(['createPolicy'], ['tenant_id'], ['pattern is ^[a-z0-9-]{3,64}$'], TENANT_ID),
  ...limited(POLICY_WRITES, ['name'], ['minLength is 1'], NOT_EMPTY),
  ...limited(POLICY_WRITES, ['name'], ['maxLength is 256'], AS_ANSWERED),
  ...limited(POLICY_WRITES, ['description'], ['maxLength is 1024'], AS_ANSWERED),
  ...limited(
    POLICY_WRITES,
    ['priority', 'reservation_ttl_override.max_extensions'],
    ['maximum is 2147483647'],
    COUNTED,
  ),
  ...limited(
    POLICY_WRITES,
    ['caps.max_tokens', 'caps.max_steps_remaining', 'caps.cooldown_ms'],
    ['maximum is 9223372036854775807', 'format is int64'],
    INT64,
  ),
  ...limited(
    ['createPolicy'],
    ['reservation_ttl_override.default_ttl_ms', 'reservation_ttl_override.max_ttl_ms'],
    ['minimum is 1000', 'maximum is 86400000'],
    AS_ANSWERED,
  ),
  ...limited(['createPolicy'], ['reservation_ttl_override.max_extensions'], ['minimum is 0'], AS_ANSWERED),
  ...[
    'other members are refused, unlike in the protocol',
    'members also hold max_reservations_per_minute, max_commits_per_minute',
  ].map((says): Difference => ({
    operations: ['createPolicy'],
    fields: ['rate_limits'],
    says,
    reason: AS_ANSWERED,
  })),
  ...limited(
    ['updatePolicy'],
    ['rate_limits.max_reservations_per_minute', 'rate_limits.max_commits_per_minute'],
    ['maximum is 2147483647'],
    COUNTED,
  ),
];

const ACTION_QUOTAS: readonly Difference[] = [
  {
    operations: ['resetActionQuotaCounter'],
    fields: ['body'],
    says: 'required members also hold tenant_id',
    reason: 'the protocol requires it in the description of the member',
  },
  ...limited(['resetActionQuotaCounter'], ['window_key'], ['maxLength is 256'], BOUNDED),
];

const AUDIT_LOG: readonly Difference[] = [
  {
    operations: ['listAuditLogs'],
    says: 'query changes_only is unknown to the protocol',
    reason: 'an operator who asks who changed something should not page through reads',
  },
  ...limited(['listAuditLogs'], ['limit'], ['minimum is 1'], ENDLESS),
  ...limited(['listAuditLogs'], ['limit', 'status'], [SAFE], EXACT),
];

const EVENTS: readonly Difference[] = [
  ...limited(['listEvents', 'listTenantEvents'], ['correlation_id'], ['maxLength is 512'], BOUNDED),
  {
    operations: ['listEvents', 'listTenantEvents'],
    fields: ['limit'],
    says: "maximum is 9007199254740991, the protocol's is 100",
    reason: 'dashboards ask for 1000; a larger limit counts as 100 instead of being refused',
  },
];

const DELIVERIES: readonly Difference[] = [
  {
    operations: ['listWebhookDeliveries', 'listTenantWebhookDeliveries'],
    fields: ['limit'],
    says: "maximum is 9007199254740991, the protocol's is 100",
    reason: 'dashboards ask for 1000; a larger limit counts as 100 instead of being refused',
  },
  ...limited(['replayEvents'], ['event_types'], ['maxItems is 100'], BOUNDED),
  {
    operations: ['replayEvents'],
    fields: ['body'],
    says: 'other members are refused, unlike in the protocol',
    reason: 'a misspelt bound of the window would replay more than intended',
  },
];

const WEBHOOK_WRITES = [
  'createWebhookSubscription',
  'updateWebhookSubscription',
  'createTenantWebhook',
  'updateTenantWebhook',
];

const WEBHOOKS: readonly Difference[] = [
  ...['name', 'description', 'scope_filter', 'metadata'].map((field): Difference => {
    const type = field === 'metadata' ? 'object' : 'string';
    return {
      operations: ['updateWebhookSubscription', 'updateTenantWebhook'],
      fields: [field],
      says: `the type is ${type},null, the protocol's is ${type}`,
      reason: "null removes it, as the protocol's own dashboard expects",
    };
  }),
  ...['listWebhookSubscriptions', 'listTenantWebhooks'].map((id): Difference => ({
    operations: [id],
    fields: ['limit'],
    says: "maximum is 9007199254740991, the protocol's is 100",
    reason: 'dashboards ask for 200; a larger limit counts as 100 instead of being refused',
  })),
  ...limited(WEBHOOK_WRITES, ['thresholds.burn_rate_multiplier'], [SAFE], EXACT),
  ...limited(
    ['bulkActionTenants', 'bulkActionBudgets', 'bulkActionWebhooks'],
    ['expected_count'],
    [SAFE],
    EXACT,
  ),
  ...limited(WEBHOOK_WRITES, ['event_types'], ['maxItems is 100'], BOUNDED),
  ...limited(WEBHOOK_WRITES, ['event_categories'], ['maxItems is 7'], 'there are seven'),
  ...limited(WEBHOOK_WRITES, ['scope_filter'], ['maxLength is 1024'], BOUNDED),
  ...limited(WEBHOOK_WRITES, ['signing_secret'], ['minLength is 1', 'maxLength is 1024'], BOUNDED),
  ...limited(
    WEBHOOK_WRITES,
    ['thresholds.budget_utilization'],
    ['maxItems is 20'],
    'every settlement of the tenant is checked against each of them',
  ),
  ...limited(WEBHOOK_WRITES, ['headers'], ['maxProperties is 32'], BOUNDED),
  ...limited(WEBHOOK_WRITES, ['headers.*'], ['maxLength is 4096'], BOUNDED),
  ...limited(WEBHOOK_WRITES, ['disable_after_failures'], ['maximum is 2147483647'], COUNTED),
  ...limited(['bulkActionWebhooks'], ['filter.tenant_id'], ['minLength is 1', 'maxLength is 64'], TENANT_ID),
  ...limited(
    ['updateWebhookSecurityConfig'],
    ['blocked_cidr_ranges', 'allowed_url_patterns'],
    ['maxItems is 1000'],
    BOUNDED,
  ),
  ...limited(['updateWebhookSecurityConfig'], ['allowed_url_patterns[]'], ['maxLength is 2048'], BOUNDED),
];

const OVERVIEW: readonly Difference[] = [
  {
    operations: ['getAdminOverview'],
    says: '200 body: the protocol has no member held_by_unit',
    reason: 'operators ask how much is in flight; clients ignore members that they do not know',
  },
];

export const DIFFERENCES: readonly Difference[] = [
  ...RUNTIME,
  ...TENANTS,
  ...BUDGETS,
  ...API_KEYS,
  ...POLICIES,
  ...ACTION_QUOTAS,
  ...AUDIT_LOG,
  ...OVERVIEW,
  ...WEBHOOKS,
  ...EVENTS,
  ...DELIVERIES,
  ...limited('all', ['cursor'], ['maxLength is 2048'], BOUNDED),
];
