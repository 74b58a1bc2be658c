import type { Rules } from './rule.js';

/**
 * The rules of `cycles-governance-admin-v0.1.25` for the operations that Holdfast serves, in our words, with
 * their places.
 */
export const GOVERNANCE_RULES = {
  'close cascade': {
    rule: 'Closing a tenant closes everything it owns: budgets CLOSED with reserved amounts drained, keys REVOKED, reservations RELEASED without debt',
    place: 'CASCADE SEMANTICS, Rule 1',
  },
  'close disables webhooks': {
    rule: 'Closing disables webhook subscriptions',
    place: 'CASCADE SEMANTICS, Rule 1',
  },
  'close guard': {
    rule: 'Mode B (a): the guard applies from the change of status on',
    place: 'CASCADE SEMANTICS, Rule 1',
  },
  'close again': {
    rule: 'Mode B (b): closing again completes what is left and emits no event twice',
    place: 'CASCADE SEMANTICS, Rule 1',
  },
  'close interrupted': {
    rule: 'Mode B (c): an interrupted close completes within a documented time',
    place: 'CASCADE SEMANTICS, Rule 1',
    note: 'The bound stands below.',
  },
  'close reads': {
    rule: 'Mode B (d): reads show what is not closed yet as it is stored',
    place: 'CASCADE SEMANTICS, Rule 1',
  },
  'close audit': {
    rule: 'Each resource that is closed has one audit row under its reserved name; all share a correlation id',
    place: 'CASCADE SEMANTICS, Rule 1',
    note: 'Reservations have one per budget, see [compatibility](../compatibility.md#deliberate-differences-and-choices).',
  },
  'change after close': {
    rule: 'Changing anything that a closed tenant owns is 409 `TENANT_CLOSED`',
    place: 'CASCADE SEMANTICS, Rule 2; createApiKey, updatePolicy',
  },
  'reads after close': {
    rule: 'What a closed tenant owns can still be read',
    place: 'CASCADE SEMANTICS, Rule 2',
  },
  'subscription after close': {
    rule: 'Subscriptions of a closed tenant cannot be changed but can still be read',
    place: 'CASCADE SEMANTICS, Rule 2',
  },
  'selector required': {
    rule: 'A subscription always has a selector of types or categories, whichever operation changes it',
    place: 'WEBHOOK SUBSCRIPTION INVARIANTS, 1',
  },
  'no operator events': {
    rule: "A tenant's subscription never selects operators' events, whoever changes it and by whichever operation",
    place: 'WEBHOOK SUBSCRIPTION INVARIANTS, 2',
  },
  'no foreign events': {
    rule: "A tenant's endpoint never sees another tenant's events nor the operators' own, whatever is stored",
    place: 'WEBHOOK SUBSCRIPTION INVARIANTS, 2',
  },
  'subscription filters': {
    rule: 'Types and categories are additive; `scope_filter` narrows, with wildcards',
    place: 'WebhookSubscription',
  },
  'utilization thresholds': {
    rule: '`budget.threshold_crossed` is emitted at the utilizations that a subscription names, else at 0.8, 0.95 and 1',
    place: 'WebhookThresholdConfig',
  },
  'threshold crossings': {
    rule: '`budget.threshold_crossed` is emitted once for each mark and direction by whatever changes what is used of a budget or what is allocated: requests, expirations, funding, bulk actions, new periods',
    place: 'EventDataBudgetThreshold',
  },
  'rate spikes': {
    rule: '`reservation.denial_rate_spike`, `reservation.expiry_rate_spike` and `api_key.auth_failure_rate_spike` are emitted at the fractions and for the windows that subscriptions name, else at 0.10, 0.05 and 0.10 over 300 s',
    place: 'WebhookThresholdConfig; EventDataRateSpike',
  },
  'burn rate': {
    rule: '`budget.burn_rate_anomaly` is emitted if a budget is spent as many times as fast as its baseline as a subscription names, else 3, over its window, else 300 s',
    place: 'WebhookThresholdConfig; EventDataBurnRateAnomaly',
  },
  'high latency': {
    rule: '`system.high_latency` is emitted if the 99th percentile of an operation exceeds a threshold',
    place: 'EventType',
  },
  'signing secret once': {
    rule: 'Only the creation returns the signing secret, which the server generates if none is given',
    place: 'WebhookCreateResponse',
  },
  'secret rotation': { rule: 'A new secret replaces the previous one', place: 'WebhookUpdateRequest' },
  'masked headers': {
    rule: 'Header values are stored encrypted and shown masked',
    place: 'WebhookSubscription',
  },
  'subscription events': {
    rule: 'Each change of a subscription emits one event, named after the change of status, with the changed members and its own correlation id; no change emits none',
    place: 'createWebhookSubscription, updateWebhookSubscription, deleteWebhookSubscription',
  },
  'resetting failures': {
    rule: 'Setting ACTIVE also re-enables a disabled subscription and resets its failures',
    place: 'updateWebhookSubscription',
  },
  'operator subscription': {
    rule: 'Without `tenant_id`, or with `__system__`, a subscription belongs to the operators and covers all tenants',
    place: 'createWebhookSubscription',
  },
  'foreign subscription': {
    rule: "Another tenant's subscription is 404",
    place: 'getTenantWebhook, updateTenantWebhook, deleteTenantWebhook',
  },
  'webhook permissions': {
    rule: 'Tenants need `webhooks:read` and `webhooks:write`',
    place: 'createTenantWebhook, listTenantWebhooks',
  },
  'operator lists webhooks': {
    rule: "With the admin key, the tenants' list requires `tenant`, else it is 400 with the document's message; an API key must not name one",
    place: 'listTenantWebhooks',
  },
  'operator webhook audit': {
    rule: "An operator's change under `/v1/webhooks` has an audit row with `actor_type` `admin_on_behalf_of`",
    place: 'updateTenantWebhook, deleteTenantWebhook',
  },
  'webhook lists': {
    rule: 'Lists can be filtered, sorted and paged without gaps, even while rows are deleted',
    place: 'listWebhookSubscriptions',
  },
  'bulk events': {
    rule: 'A bulk action emits one event per changed row under one correlation id, and has one audit row',
    place: 'bulkActionTenants, bulkActionBudgets, bulkActionWebhooks',
  },
  'bulk refusals': {
    rule: 'A bulk action changes nothing if the count differs (409), there are more than 500 matches (400) or the filter is empty (400)',
    place: 'bulkActionTenants, bulkActionBudgets, bulkActionWebhooks',
  },
  'bulk idempotency': {
    rule: 'For 15 minutes, the same idempotency key returns the first response, and completes what a crashed process left',
    place: 'bulkActionTenants, bulkActionBudgets, bulkActionWebhooks',
  },
  'bulk filters': {
    rule: 'The filter of a bulk action selects what the list with the same filter shows',
    place: 'TenantBulkFilter, BudgetBulkFilter, WebhookBulkFilter',
  },
  'bulk damaged row': {
    rule: 'A row that cannot be changed is in `failed` with its error code, and the others go on',
    place: 'BulkActionRowOutcome',
  },
  'bulk operators only': {
    rule: 'Bulk actions on tenants and budgets require the admin key',
    place: 'bulkActionTenants, bulkActionBudgets',
  },
  'bulk tenants': {
    rule: 'SUSPEND and REACTIVATE skip what is in that status and fail on a closed tenant; CLOSE closes what each tenant owns, with `tenant.closed` under the action and the rest under its tenant; its audit row has the actor `admin_on_behalf_of`',
    place: 'bulkActionTenants',
  },
  'bulk budgets': {
    rule: 'CREDIT, DEBIT, RESET, RESET_SPENT and REPAY_DEBT do to each budget what `fundBudget` does, with the same events; the one audit row belongs to the tenant of the filter',
    place: 'bulkActionBudgets',
  },
  'bulk skipped budgets': {
    rule: 'A budget that the action would leave as it is, such as REPAY_DEBT without debt, is skipped without an event',
    place: 'BudgetBulkActionResponse',
  },
  'bulk failed budgets': {
    rule: "A row in another unit than the amount's, and a closed budget, fail with INVALID_TRANSITION; a DEBIT beyond what remains fails with BUDGET_EXCEEDED",
    place: 'BudgetBulkActionRequest, BudgetBulkActionResponse',
  },
  'bulk budget requests': {
    rule: 'Action and payload are checked before anything is counted; `tenant_id` is required, and 404 if there is no such tenant',
    place: 'bulkActionBudgets, BudgetBulkFilter',
  },
  'webhook urls': {
    rule: "A webhook's URL must be HTTPS unless HTTP is allowed, match an allowed pattern if there are any, and resolve to no blocked address",
    place: 'WebhookSecurityConfig',
  },
  'private addresses': {
    rule: 'Private addresses are blocked unless the operator allows them',
    place: 'WebhookSecurityConfig',
  },
  'security configuration': {
    rule: 'A new configuration replaces the old one entirely, applies at once, and does not change stored subscriptions',
    place: 'updateWebhookSecurityConfig',
  },
  'governance sort default': { rule: 'A sort key without a direction is descending', place: 'SortDirection' },
  'governance list parameters': {
    rule: 'Unknown query parameters are ignored; `search` may be empty and is 400 beyond 128 characters',
    place: 'All lists',
  },
  'expiry policies': {
    rule: 'Each expiry policy: automatic release, manual release or cleanup, commits in the grace and then EXPIRED',
    place: 'Tenant',
  },
  'tenant creation': {
    rule: '`createTenant` is idempotent: the same id and name is 200, another name is a conflict',
    place: 'createTenant',
  },
  'tenant status': {
    rule: 'A tenant can change between ACTIVE and SUSPENDED; CLOSED is final',
    place: 'updateTenant',
  },
  'suspended settlement': {
    rule: 'While a tenant is SUSPENDED, its active reservations can be committed and released',
    place: 'updateTenant',
    note: 'By operators, who can release them. Its keys are refused entirely: `validateApiKey` contradicts `updateTenant`, see [keys](../compatibility.md#keys-and-access).',
  },
  'tenant defaults': {
    rule: "The tenant's default and maximum lease, extensions and overage policy are honoured",
    place: 'Tenant',
  },
  'budget period': {
    rule: '`period_start`, `period_end` and `rollover_policy` take effect: at the end of its period, a budget starts the next one',
    place: 'BudgetCreateRequest',
  },
  'ledger tenant': { rule: 'Every ledger names its `tenant_id`', place: 'BudgetLedger' },
  'operator names owner': {
    rule: 'With the admin key `tenant_id` is required in `createBudget` and `createPolicy`; with an API key it is 400',
    place: 'BudgetCreateRequest, PolicyCreateRequest',
  },
  'new ledger': {
    rule: "The scope must be canonical and the tenant's own, the tenant ACTIVE, and the ledger new",
    place: 'createBudget',
  },
  'acting for tenant': {
    rule: 'An operator acting for a tenant is recorded as such',
    place: 'createBudget, createPolicy, updatePolicy',
  },
  'utilization filter': {
    rule: '`utilization_min` above `utilization_max` is 400; a budget without allocation has a utilization of 0',
    place: 'listBudgets',
  },
  'budget filters': { rule: 'Filters combine and apply before paging', place: 'listBudgets' },
  'budget lists': {
    rule: "A key lists its own tenant's ledgers; an operator lists all, or one tenant's",
    place: 'listBudgets',
  },
  'budget access': {
    rule: 'A key can look up and fund only inside its tenant and scope filter',
    place: 'lookupBudget, fundBudget',
  },
  'overdraft limit change': {
    rule: 'Changing the overdraft limit re-evaluates whether the scope is over it',
    place: 'updateBudget',
  },
  'frozen budget': {
    rule: 'A frozen budget refuses funding and reserves but can be patched; freezing twice, unfreezing an active one, and either on a CLOSED one are 409',
    place: 'freezeBudget, unfreezeBudget',
  },
  'funding tenant': {
    rule: 'With the admin key, funding requires `tenant_id`; with an API key it is ignored',
    place: 'fundBudget',
  },
  'funding operations': {
    rule: 'CREDIT, DEBIT, RESET, RESET_SPENT and REPAY_DEBT follow their formulas; DEBIT never goes below zero',
    place: 'fundBudget',
  },
  'spent given': { rule: 'RESET_SPENT reports whether spent was given', place: 'fundBudget' },
  'funding replay': {
    rule: 'Funding again with the same key returns the first response',
    place: 'fundBudget',
  },
  'policy lists': {
    rule: 'With the admin key, a list of policies requires `tenant_id`; with an API key it has no effect',
    place: 'listPolicies',
  },
  'policy precedence': {
    rule: 'The policy with the highest priority that is in effect wins',
    place: 'createPolicy',
  },
  'policy limits': {
    rule: 'A policy limits the reservations and the commits of a minute in the scopes that it governs',
    place: 'RateLimits',
  },
  'key secret once': {
    rule: 'A secret is shown once; neither it nor its hash appears again',
    place: 'createApiKey, listApiKeys',
  },
  'key permissions': {
    rule: 'A key has ten permissions by default; an unknown permission is refused; expired keys fail',
    place: 'createApiKey',
  },
  'admin permissions': {
    rule: '`admin:write` implies every `*:write`, and `admin:read` every `*:read` but no write',
    place: 'Permission',
  },
  'key changes': {
    rule: 'A PATCH of a key changes only the given fields, never its tenant, expiry or status, and a change of permissions emits an event',
    place: 'updateApiKey',
  },
  'revoked key': { rule: 'A revoked key fails permanently', place: 'revokeApiKey' },
  'key validation': {
    rule: 'A validation answers 200 with the reason if a key is invalid',
    place: 'validateApiKey',
  },
  'admin introspection': {
    rule: 'The admin key has all capabilities, and neither `tenant_id` nor `scope_filter`',
    place: 'introspectAuth',
  },
  'key capabilities': {
    rule: "An API key's capabilities follow the table; the six operator capabilities are always false",
    place: 'AuthIntrospectResponse',
  },
  'audit filter refusals': {
    rule: '`status` together with a bound, bounds that cross or lie outside 100 to 599, and lists of more than 25 are 400',
    place: 'listAuditLogs',
  },
  'error code filters': {
    rule: 'A successful row matches no `error_code`, and `error_code_exclude` never hides it',
    place: 'listAuditLogs',
  },
  'unknown error code': {
    rule: 'An unknown `error_code` matches nothing and is not refused',
    place: 'listAuditLogs',
  },
  'audit correlation': {
    rule: 'Every audit row of a request has its `request_id` and `trace_id`',
    place: 'AuditLogEntry',
  },
  'overview counts': {
    rule: 'The overview counts tenants, budgets and webhook subscriptions by status, and budgets by unit',
    place: 'AdminOverviewResponse',
  },
  'overview lists': {
    rule: 'At most ten budgets over their limit, ten in debt and ten failing subscriptions are listed, the worst first',
    place: 'AdminOverviewResponse',
  },
  'overview events': {
    rule: 'Events are counted by category within `event_window_seconds`, with the ten latest denials and expirations, and denials by reason',
    place: 'AdminOverviewResponse',
  },
  'overview cheap': {
    rule: 'The cost of an overview does not grow with the number of requests',
    place: 'getAdminOverview, PERFORMANCE',
  },
  'overview operators only': {
    rule: 'The overview requires the admin key',
    place: 'getAdminOverview',
  },
  'event filters': {
    rule: 'Event filters combine; `scope` is a prefix, `search` covers correlation ids and scopes, and blank means absent',
    place: 'listEvents',
  },
  'event cursor': {
    rule: 'A cursor continues in the requested order without repeating or skipping',
    place: 'listEvents',
  },
  'tenant events': {
    rule: 'A tenant sees its own events in the categories budget, reservation and tenant; any other category is 400',
    place: 'listTenantEvents',
  },
  'events permission': { rule: '`events:read` is required, and not a default', place: 'listTenantEvents' },
  'event payload': {
    rule: "An event has the payload of its type; times are the store's and ordered within a tenant",
    place: 'Event, EventData*',
  },
  'event retention': { rule: 'Events are deleted after a retention period', place: 'Event' },
  'admin sentinel': {
    rule: "`__admin__` marks operators' rows that concern no single tenant",
    place: 'AuditLogEntry',
  },
  'unauth sentinel': {
    rule: '`__unauth__` marks requests that failed to authenticate',
    place: 'AuditLogEntry',
  },
  'webhook test': {
    rule: "A test sends `system.webhook_test` to any subscription, including a tenant's, and changes nothing",
    place: 'testWebhookSubscription, testTenantWebhook; WEBHOOK SUBSCRIPTION INVARIANTS',
  },
  'webhook test answer': {
    rule: "A test returns the endpoint's status and response time",
    place: 'testWebhookSubscription',
  },
  'webhook test security': {
    rule: 'The current security configuration also applies to a test',
    place: 'WebhookSecurityConfig; testWebhookSubscription',
  },
  deliveries: {
    rule: 'Deliveries are listed with status, times and errors, and can be filtered by status and window',
    place: 'listWebhookDeliveries, listTenantWebhookDeliveries',
  },
  'foreign deliveries': {
    rule: "Another tenant's subscription is 404; an operator sees all",
    place: 'testTenantWebhook, listTenantWebhookDeliveries',
  },
  'replay of events': {
    rule: 'A replay queues the events of its window in order, each as a new delivery',
    place: 'replayEvents',
  },
  'replay complete': {
    rule: 'A replay covers everything in the window that the subscription may receive, or is 400',
    place: 'replayEvents, COMPLETENESS',
  },
  'replay count': {
    rule: '`events_queued` is the number queued: 0 for a paused or disabled subscription, fewer if the store fails midway',
    place: 'replayEvents, COMPLETENESS',
  },
  'one replay': {
    rule: 'A subscription has one replay at a time; a second is 409 `REPLAY_IN_PROGRESS`',
    place: 'replayEvents',
  },
  'test after close': {
    rule: "Testing or replaying a closed tenant's subscription is 409 `TENANT_CLOSED`; its deliveries can be read",
    place: 'CASCADE SEMANTICS, Rule 2',
  },
  'delivery order': {
    rule: "First attempts of a tenant's events to an endpoint are in order, one at a time; retries may arrive later",
    place: 'WebhookSubscription',
  },
  'hanging endpoint': {
    rule: 'An endpoint that hangs delays no other endpoint',
    place: 'WebhookSubscription',
  },
  'delivery retries': {
    rule: '2xx is success; anything else is retried: `max_retries` times after the first attempt, after `initial_delay_ms` that grows by `backoff_multiplier` up to `max_delay_ms`',
    place: 'WebhookSubscription; WebhookRetryPolicy',
  },
  'delivery failed': {
    rule: 'A delivery without attempts left is FAILED, and `system.webhook_delivery_failed` reports it',
    place: 'WebhookSubscription',
  },
  'delivery disables': {
    rule: '`disable_after_failures` such deliveries in a row disable the subscription, with one `webhook.disabled` that has the reason and its own correlation id; a success resets the count',
    place: 'WebhookSubscription',
  },
  'inactive subscription': {
    rule: 'Nothing is queued for a subscription that is paused or disabled',
    place: 'WebhookSubscription',
  },
} as const satisfies Rules;
