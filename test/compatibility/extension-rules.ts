import type { Rules } from './rule.js';

/**
 * The rules for servers in the three documents of v0.1.26, in our words, with their places in the documents.
 */
export const EXTENSION_RULES = {
  'action kind registry': {
    rule: 'The registry has exactly the kinds of the document in its order, `unknown.call` last, and none of operators; a kind is found by its exact name',
    place: 'BUILT-IN ACTION KIND REGISTRY; CUSTOM.* NAMESPACE RULES, VISIBILITY; getActionKind',
  },
  'custom kinds': {
    rule: 'A deployment declares its own `custom.*` kinds with their risk classes, which policies use. One that it does not declare is 400 `INVALID_REQUEST` in reserves, decisions and rules',
    place: 'UNREGISTERED KIND HANDLING; CUSTOM.* NAMESPACE RULES; updatePolicyActionQuotas',
  },
  'unregistered kinds': {
    rule: 'Any other kind outside the registry is accepted as a side effect without policy keys, and logged',
    place: 'UNREGISTERED KIND HANDLING',
  },
  'deprecated kinds': {
    rule: 'A deprecated kind stays in the registry and is accepted as any other, under its own name',
    place: 'DEPRECATION PROCESS',
    note: 'The registry of v0.1.26 has no deprecated kind, so there is no `X-Cycles-Deprecated-Kind`.',
  },
  'registry limits': {
    rule: 'The registry is public, and limited by source: 429 with `Retry-After`. A client that has it gets 304, which does not count',
    place: 'PUBLIC ENDPOINT RATE LIMITING',
  },
  'quota counters': {
    rule: 'The live counters of a tenant are listed with what they count, filtered by scope, kind, window and run, and without those at zero unless asked',
    place: 'listActionQuotaCounters; ActionQuotaState',
  },
  'quota counter access': {
    rule: 'The admin key names a tenant; an API key sees its own tenant, and needs `action_quotas:read`, or `balances:read`, which a header calls deprecated',
    place: 'TENANCY and PERMISSION MODEL of listActionQuotaCounters; PermissionExtension',
  },
  'quota counter reset': {
    rule: 'A reset sets one live counter to 0. A calendar counter ends when it would have, a run begins anew, and holds stay: one from before takes nothing off. No counter of these key fields is 404',
    place: 'RESET SEMANTICS; resetActionQuotaCounter',
  },
  'quota counter reset is told': {
    rule: 'Each reset is one `quota.counter_reset` and one audit row with the previous count, who did it and why; the event has the correlation id of the thresholds of its counter',
    place: 'AUDIT of resetActionQuotaCounter; EventDataQuotaCounterReset',
  },
  'quota counter reset access': {
    rule: 'Only the admin key resets, and it must name the tenant',
    place: 'PERMISSION MODEL and TENANCY of resetActionQuotaCounter',
  },
  'evaluation order': {
    rule: 'A request is judged by the tenant, then the lists of action kinds, then quotas, then budgets; only the governing policy counts',
    place: 'RESERVATION EVALUATION ORDER; MULTI-POLICY SEMANTICS',
  },
  'action kind lists': {
    rule: 'A kind on the denylist, or not on the allowlist, is denied and changes nothing',
    place: 'RESERVATION EVALUATION ORDER, STEP 1; PolicyExtension',
  },
  'one list of kinds': {
    rule: 'A policy with both lists is refused; clearing one while setting the other is not. Wildcards and risk classes are no kinds',
    place: 'PolicyExtension; PolicyPatchExtension',
  },
  'policy rule lists': {
    rule: 'The four lists are stored and always returned, a PATCH replaces them, and `policy.updated` names them',
    place: 'DEFAULT VALUE SEMANTICS; PolicyPatchExtension',
  },
  'policy filters': {
    rule: 'A list of policies is filtered by whether they have quotas, and by the kinds that their rules name',
    place: 'ADMIN OVERVIEW AND LIST FILTERS',
  },
  'deny detail': {
    rule: 'A DENY has a `deny_detail` that mirrors its reason, and so have the `details` of a refusal and `reservation.denied`',
    place:
      'DenyDetail; DecisionResponseExtension; ReservationCreateResponseExtension; ErrorResponseExtension',
    note: 'In answers of decide and dry runs only for those who use the extensions; see [deliberate differences](../compatibility.md#deliberate-differences-and-choices).',
  },
  'quota windows': {
    rule: 'A quota counts by run, or by the minute, hour or day of UTC at the instant of the request; the bounds do not depend on the life of a key',
    place: 'WINDOW MODEL; ActionQuotaWindow',
  },
  'quota changes': {
    rule: 'A changed quota holds from the next reserve on, and its counters go on',
    place: 'COUNTER CONTINUITY of PolicyPatchExtension',
  },
  'quota counter life': {
    rule: 'Every counter has a time to live, which calendar windows do not depend on; a counter by run lives on with each reserve',
    place: 'COUNTER TTL RULES; PER_RUN COUNTER LIFECYCLE',
  },
  'quota scope': {
    rule: 'A quota counts at the deepest scope that it covers, and per_tenant_per_day at the tenant; a risk class and a kind have counters of their own',
    place: 'SCOPE DERIVATION FOR QUOTAS; RISK-CLASS QUOTA COUNTER KEYS',
  },
  'quota atomicity': {
    rule: 'Counters and budgets change together or not at all; neither dry runs nor decisions nor refused requests count',
    place: 'ATOMICITY WITH BUDGET RESERVATION',
  },
  'per run counters': {
    rule: 'A reserve counts on its run, a commit changes nothing, a release or an expiry takes one off, and a counter lapses after its time without reserves. Without a `run_id` the request is 400',
    place: 'PER_RUN COUNTER LIFECYCLE',
  },
  'policy keys': {
    rule: 'A quota with an allowlist covers only actions that send a matching key which their kind declares; other keys are never an error',
    place: 'POLICY KEYS EVALUATION SEMANTICS',
  },
  'quota thresholds': {
    rule: 'Crossing the threshold of a quota is told once in a window, with a correlation id that follows from the counter',
    place: 'EventDataQuotaThresholdApproaching',
  },
  'tenant observe mode': {
    rule: 'A tenant has an `observe_mode`, ENFORCE unless it was set. It is always returned as it was set, and `tenant.settings_changed` names it when it changes',
    place: 'TenantExtension; TenantPatchExtension; DEFAULT VALUE SEMANTICS',
  },
  'observe mode filters': {
    rule: 'The list of tenants and their bulk actions take `observe_mode` as a filter',
    place: 'ADMIN OVERVIEW AND LIST FILTERS; TenantBulkFilter',
  },
  'observe mode precedence': {
    rule: "The request's `observe_mode` comes first, then its tenant's, then ENFORCE. OBSERVE evaluates as a dry run does, with or without `dry_run`; only OBSERVE emits the events of observe mode",
    place: 'OBSERVE MODE EVALUATION RULES; ReservationCreateRequestExtension',
  },
  'observe mode side effects': {
    rule: 'A reserve in observe mode is evaluated in full, and changes no balance and no counter of a quota; no threshold is told',
    place: 'SIDE-EFFECT CONTRACT',
  },
  'observed denials': {
    rule: 'A denial in observe mode is 200 `DENY` with a `deny_detail`, and one `reservation.observed_denied` instead of `reservation.denied`, with the correlation id of its cause',
    place: 'SIDE-EFFECT CONTRACT; EventDataObservedDenied',
  },
  'observed allowances': {
    rule: 'An allowed reserve in observe mode is one `reservation.observed_allowed` with its caps and the correlation id of its run; what sampling leaves out is not told, and the others have the `sample_rate`',
    place: 'SIDE-EFFECT CONTRACT; EventDataObservedAllowed',
  },
  'observe mode transitions': {
    rule: 'A change of the mode holds for the next reserve, on every instance. Reservations that were made before it, and replays, stay what they were',
    place: 'TRANSITION SEMANTICS',
  },
  'clients of 0.1.25': {
    rule: 'Who does not use the extensions gets the answers, refusals and events of 0.1.25',
    place: 'EXTENSION CONTRACT',
  },
  'overview of extensions': {
    rule: 'The overview counts tenants in observe mode, policies with lists of action kinds, and counters of quotas at 80 % and at their limit, with the ten that are used most',
    place: 'ADMIN OVERVIEW AND LIST FILTERS',
  },
} as const satisfies Rules;
