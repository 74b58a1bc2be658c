// Generated from the headers of the scripts in lua by `npm run generate`. Do not edit.

export interface ScriptSignature {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** True when further arguments follow the named ones. */
  readonly rest?: true;
  readonly flags: readonly ('allow-oom' | 'no-writes')[];
  /** The grammar is described in script-header.ts. */
  readonly returns: string;
}

export const SCRIPT_SIGNATURES = {
  /** lua/audit/append_audit_rows.lua: append rows that no change wrote: refusals, failures, reads, repeated requests, invalid credentials. */
  append_audit_rows: {
    keys: ['log'],
    args: ['log_name', 'most'],
    rest: true,
    flags: [],
    returns: 'APPENDED appended:int removed:int',
  },
  /** lua/audit/count_expirations.lua: how many expirations a partition's event log has in each slot of a window, a bounded stretch of it at a time. */
  count_expirations: {
    keys: ['event_log'],
    args: ['start', 'stop', 'examine', 'from_ms', 'to_ms', 'slot_ms', 'tenant_id', 'scope', 'state'],
    flags: ['no-writes'],
    returns: 'next_start? examined:int counts(slot:int expirations:int)*',
  },
  /** lua/audit/expirations.lua: the expired and quarantined reservations in a partition's event log, in bounded pages. */
  expirations: {
    keys: ['event_log'],
    args: ['start', 'stop', 'examine', 'limit', 'from_ms', 'to_ms', 'tenant_id', 'scope', 'state'],
    flags: ['no-writes'],
    returns: 'next_start? rows(entry_id at_ms state:EXPIRED|QUARANTINED text_count event{})*',
  },
  /** lua/audit/inspect_reservation.lua: everything known about one reservation in any state, for operators. An overdue one is expired first. */
  inspect_reservation: {
    keys: ['reservation'],
    args: ['reservation_id', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns:
      'FOUND now_ms goes_at_ms? quarantine? defect? word? detail? second_detail? text_count end_event{} record{} | NOT_FOUND',
  },
  /** lua/audit/list_audit_log.lua: the matching rows of one of a partition's audit logs, in bounded pages and either direction. */
  list_audit_log: {
    keys: ['audit_log', 'walked'],
    args: ['direction', 'start', 'stop', 'examine', 'limit', 'bytes', 'digest'],
    rest: true,
    flags: ['no-writes'],
    returns: 'next_start? examined:int rows(entry_id text_count row{})*',
  },
  /** lua/audit/pack_records.lua: convert records of ended reservations to their compact form, some at a time. */
  pack_records: {
    keys: ['ended'],
    args: ['limit'],
    flags: ['allow-oom'],
    returns: 'PACKED examined:int packed:int remaining:int',
  },
  /** lua/audit/trim_audit_log.lua: remove rows past their retention from one of a partition's audit logs and its indexes, oldest first. */
  trim_audit_log: {
    keys: ['audit_log'],
    args: ['log_name', 'retention_ms', 'limit'],
    flags: ['allow-oom'],
    returns: 'TRIMMED removed:int more:flag',
  },
  /** lua/audit/trim_reservation_index.lua: remove entries of records that no longer exist from tenants' reservation indexes, and those of runs whose counters */
  trim_reservation_index: {
    keys: ['tenant_index'],
    args: ['tenant', 'walked_ms', 'walked_id', 'examine', 'retention_ms'],
    flags: ['allow-oom'],
    returns: 'TRIMMED tenant? walked_ms:text? walked_id? examined:int removed:int damaged*',
  },
  /** lua/audit/verify_budgets.lua: the figures of a tenant's budgets at one instant, and what is wrong with their periods and windows, in bounded pages. */
  verify_budgets: {
    keys: ['budget_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
    returns:
      'now_ms next? budgets(budget remaining? reserved? spent? allocated? debt? status? period_defect?)*',
  },
  /** lua/audit/verify_holds.lua: the sums of a tenant's live holds at each budget, in bounded pages of its reservation index. */
  verify_holds: {
    keys: ['reservation_index'],
    args: ['walked_ms', 'walked_id', 'examine', 'first_ms'],
    rest: true,
    flags: ['no-writes'],
    returns:
      'walked_ms:text? walked_id? has_stepped:flag sum_count sums(budget holds:int amount)* moving_count moving(reservation_id born_ms ended_ms? amount budget_count budgets*)* unreadable_count unreadable(reservation_id reason quarantined:flag)* named_count named(reservation_id amount quarantined:flag budget)*',
  },
  /** lua/bulk/begin_bulk_action.lua: claim an idempotency key for a bulk action, or return the action that was begun with it. */
  begin_bulk_action: {
    keys: ['bulk'],
    args: ['fingerprint', 'keep_ms', 'correlation_id', 'request_id', 'trace', 'rows', 'claims'],
    flags: ['allow-oom'],
    returns: 'BEGUN correlation_id request_id trace? rows? | ENDED response | UNKNOWN | IDEMPOTENCY_MISMATCH',
  },
  /** lua/bulk/end_bulk_action.lua: keep the response of a bulk action, with its one audit row. */
  end_bulk_action: {
    keys: ['bulk'],
    args: [
      'fingerprint',
      'keep_ms',
      'response',
      'operation',
      'resource_type',
      'owner',
      'correlation_id',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    rest: true,
    flags: ['allow-oom'],
    returns: 'ENDED answer:fresh|replay response',
  },
  /** lua/clocks/advance_tenant.lua: let the time of a tenant with a test clock pass, up to an instant, or as far as one run may go. */
  advance_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'clock_id', 'to_ms', 'limit', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns:
      'ADVANCED clock_now_ms more:flag rolled:int outcome_count outcomes(word detail? second_detail?)* damaged_count damaged(scope unit)* unplanned(scope unit window? recurrence? ends?)* | NOT_FOUND',
  },
  /** lua/clocks/begin_advance.lua: say how far a test clock is to be advanced. Its tenants' time passes by lua/clocks/advance_tenant.lua. */
  begin_advance: {
    keys: ['test_clock', 'clock_tenants'],
    args: ['to_ms', 'longest_ms', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'ADVANCING from_ms tenants* | NOT_FOUND | NOT_FORWARD clock_now_ms | TOO_FAR clock_now_ms',
  },
  /** lua/clocks/create_test_clock.lua: create a test clock, which stands still at an instant. */
  create_test_clock: {
    keys: ['test_clock', 'test_clocks'],
    args: ['clock_id', 'name', 'instant', 'most', 'actor', 'key_id', 'request_id', 'trace'],
    flags: [],
    returns: 'CREATED record{} | LIMIT_EXCEEDED used:int',
  },
  /** lua/clocks/delete_test_clock.lua: delete a test clock whose tenants are all closed. Their time stands still for good. */
  delete_test_clock: {
    keys: ['test_clock', 'test_clocks', 'clock_tenants'],
    args: ['clock_id', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'DELETED | NOT_FOUND | IN_USE',
  },
  /** lua/clocks/end_advance.lua: say that all tenants of a test clock have reached an instant. */
  end_advance: { keys: ['test_clock'], args: ['to_ms'], flags: ['allow-oom'], returns: 'ENDED | NOT_FOUND' },
  /** lua/clocks/join_test_clock.lua: enter a tenant that is about to be created into the tenants of a test clock. */
  join_test_clock: {
    keys: ['test_clock', 'clock_tenants'],
    args: ['tenant_id', 'most'],
    flags: [],
    returns: 'JOINED clock_now_ms joined_at_ms | NOT_FOUND | ADVANCING to_ms | LIMIT_EXCEEDED used:int',
  },
  /** lua/clocks/leave_test_clock.lua: remove a tenant that could not be created from the tenants of a test clock. */
  leave_test_clock: {
    keys: ['clock_tenants'],
    args: ['tenant_id', 'joined_at_ms'],
    flags: ['allow-oom'],
    returns: 'LEFT | STAYS',
  },
  /** lua/clocks/list_test_clocks.lua: all test clocks in the order of creation, or one of them. */
  list_test_clocks: {
    keys: ['test_clocks'],
    args: ['clock_id'],
    flags: ['no-writes'],
    returns: 'clocks(tenant_count tenants* text_count record{})*',
  },
  /** lua/events/emit_store_outage.lua: emit the events of a Redis outage once, however many instances saw it. */
  emit_store_outage: {
    keys: ['event_log', 'outage'],
    args: ['outage_ms'],
    flags: ['allow-oom'],
    returns: 'EMITTED | SAME',
  },
  /** lua/events/list_events.lua: the matching events of a partition, in bounded pages of its log and either direction. */
  list_events: {
    keys: ['event_log', 'walked'],
    args: ['direction', 'start', 'stop', 'examine', 'limit'],
    rest: true,
    flags: ['no-writes'],
    returns: 'next_start? examined:int events(entry_id text_count event{})*',
  },
  /** lua/events/trim_event_log.lua: remove events past their retention from a partition's log and its indexes, oldest first. */
  trim_event_log: {
    keys: ['event_log'],
    args: ['retention_ms', 'unread_ms', 'limit'],
    flags: ['allow-oom'],
    returns: 'TRIMMED removed:int more:flag held:flag',
  },
  /** lua/evidence/keep_evidence.lua: count an envelope against its tenant, and name it in the record of its reservation. */
  keep_evidence: {
    keys: ['owned'],
    args: [
      'tenant_id',
      'bytes',
      'retention_ms',
      'max_stored',
      'limited',
      'reservation_id',
      'artifact',
      'reference',
    ],
    flags: [],
    returns: 'KEPT | LIMIT_EXCEEDED limit allowed:int used:int',
  },
  /** lua/expiry/cleanup_reservations.lua: expire holds under MANUAL_CLEANUP whose grace is over, in bounded pages of the partition's cleanup index. */
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
    returns:
      'CLEANED now_ms walked_ms:text? walked_id? examined:int reservations(reservation_id word detail? second_detail?)*',
  },
  /** lua/expiry/decide_quarantined.lua: an operator's decision on a reservation in quarantine: check it again, or release it as it is. */
  decide_quarantined: {
    keys: ['reservation'],
    args: ['reservation_id', 'action', 'reason', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns:
      'RETRIED now_ms word detail? second_detail? | RELEASED now_ms tenant amount? unit? returned_count returned_scopes* kept_count kept(scope reason)* | NOT_FOUND',
  },
  /** lua/expiry/expire.lua: reclaim one abandoned hold, if it is due. Only the script decides that, by Redis' clock. */
  expire: {
    keys: ['reservation'],
    args: ['reservation_id', 'retention_ms', 'trace'],
    flags: ['allow-oom'],
    returns:
      'NOT_FOUND | SKIP reason [deadline_ms] | EXPIRED tenant deadline_ms now_ms | QUARANTINED reason tenant? [again:again]',
  },
  /** lua/expiry/expire_page.lua: reclaim many abandoned holds of one partition, those that are due. */
  expire_page: {
    keys: ['ttl_index'],
    args: ['retention_ms', 'trace'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'JUDGED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/expiry/inspect_quarantined.lua: a reservation in quarantine, and what an operator's release would return to the budgets. */
  inspect_quarantined: {
    keys: ['reservation'],
    args: ['reservation_id'],
    flags: ['no-writes'],
    returns:
      'QUARANTINED entry defect? amount? unit? returned_count returned_scopes* kept_count kept(scope reason)* record{} | NOT_FOUND',
  },
  /** lua/expiry/reconcile.lua: restore missing index entries of live reservations, in bounded pages of the partition's tenants and their reservations. */
  reconcile: {
    keys: ['tenant_index'],
    args: ['tenant', 'walked_ms', 'walked_id', 'tally', 'examine', 'retention_ms', 'trace'],
    rest: true,
    flags: ['allow-oom'],
    returns:
      'RECONCILED now_ms tenant? walked_ms:text? walked_id? tally? examined:int recount_count recounts(tenant counted:int live:int)* near_count near(tenant limit used:int allowed:int)* found_count found(reservation_id place:MISSING|MISPLACED)*',
  },
  /** lua/expiry/sweep_page.lua: take or renew the lease on a partition's sweep, and read what is due there. */
  sweep_page: {
    keys: ['lease', 'ttl_index'],
    args: ['token', 'lease_ms', 'take', 'skip', 'limit'],
    flags: ['allow-oom'],
    returns:
      'HELD now_ms lease:renewed|taken|none due:int oldest_due_ms? next_deadline_ms? quarantined:int awaiting:int oldest_awaiting_ms? reservation_ids* | OTHER now_ms lapses_in_ms | FREE now_ms',
  },
  /** lua/expiry/sweep_state.lua: which instance sweeps a partition, and what is due there. */
  sweep_state: {
    keys: ['lease', 'ttl_index'],
    args: [],
    flags: ['no-writes'],
    returns:
      'STATE now_ms holder? lapses_in_ms indexed:int due:int oldest_due_ms? next_deadline_ms? quarantined:int awaiting:int oldest_awaiting_ms?',
  },
  /** lua/governance/authenticate.lua: find the owner of an API key, and check that the key is valid. */
  authenticate: {
    keys: ['secret_hash'],
    args: [],
    flags: ['no-writes'],
    returns:
      'OK key_id tenant_id expires_in_ms permissions scope_filter references_evidence:flag use_noted:flag | UNKNOWN | REVOKED | EXPIRED | TENANT_SUSPENDED',
  },
  /** lua/governance/bulk_budget.lua: apply a bulk action to one budget, once: CREDIT, DEBIT, RESET, RESET_SPENT or REPAY_DEBT, as fund_budget does. */
  bulk_budget: {
    keys: ['budget'],
    args: [
      'tenant_id',
      'scope',
      'unit',
      'operation',
      'amount',
      'spent',
      'reason',
      'keep_ms',
      'correlation_id',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'retention_ms',
    ],
    flags: [],
    returns:
      'SUCCEEDED | SKIPPED reason:ALREADY_IN_TARGET_STATE | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | BUDGET_FROZEN | BUDGET_EXCEEDED | INT64_OVERFLOW | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/governance/bulk_tenant.lua: apply a bulk action to one tenant, once. */
  bulk_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'status', 'keep_ms', 'correlation_id', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'SUCCEEDED | SKIPPED reason:ALREADY_IN_TARGET_STATE | NOT_FOUND | INVALID_TRANSITION',
  },
  /** lua/governance/close_tenant.lua: one bounded step of closing what a closed tenant owns. */
  close_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'phase', 'cursor', 'limit', 'retention_ms', 'channel'],
    flags: ['allow-oom'],
    returns:
      'STEP next_phase next_cursor? now_ms changed:int outcomes(word detail? second_detail?)* | DONE | NOT_CLOSING',
  },
  /** lua/governance/create_api_key.lua: create an API key of a tenant. Only the hash of its secret is stored. */
  create_api_key: {
    keys: ['api_key', 'secret_hash', 'api_key_index', 'tenant'],
    args: [
      'tenant_id',
      'api_key_id',
      'hash',
      'name',
      'permissions',
      'scope_filter',
      'expires_at_ms',
      'default_life_ms',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'max_api_keys',
    ],
    rest: true,
    flags: [],
    returns:
      'CREATED record{} | TENANT_NOT_FOUND | TENANT_CLOSED | EXPIRES_IN_PAST | LIMIT_EXCEEDED limit allowed:int used:int',
  },
  /** lua/governance/create_budget.lua: create a ledger for one (scope, unit). */
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
      'period_start',
      'period_end',
    ],
    rest: true,
    flags: [],
    returns:
      'CREATED record{} | TENANT_NOT_FOUND | TENANT_SUSPENDED | TENANT_CLOSED | DUPLICATE | INVALID_PERIOD reason:ENDED|NOT_BEGUN|TOO_SHORT | LIMIT_EXCEEDED limit allowed:int used:int',
  },
  /** lua/governance/create_policy.lua: create a policy of a tenant. It applies at once within its effective window. */
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
    returns:
      'CREATED record{} | TENANT_NOT_FOUND | TENANT_SUSPENDED | TENANT_CLOSED | DUPLICATE | TOO_MANY limit:int | LIMIT_EXCEEDED limit allowed:int used:int',
  },
  /** lua/governance/create_tenant.lua: create a tenant, unless it exists. */
  create_tenant: {
    keys: ['tenant', 'tenant_index'],
    args: ['tenant_id', 'name', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
    returns: 'CREATED record{} | EXISTS record{} | DUPLICATE',
  },
  /** lua/governance/expire_api_keys.lua: emit an event for each API key of a partition that has expired, once. */
  expire_api_keys: {
    keys: ['key_expiries'],
    args: ['limit'],
    flags: ['allow-oom'],
    returns: 'EXPIRED announced:int more:flag',
  },
  /** lua/governance/freeze_budget.lua: block new reservations, commits and funding on one ledger. Existing holds stay. */
  freeze_budget: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'reason', 'metadata', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | BUDGET_FROZEN',
  },
  /** lua/governance/fund_budget.lua: change the funds of one ledger: CREDIT, DEBIT, RESET, RESET_SPENT or REPAY_DEBT. */
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
      'retention_ms',
      'trace',
    ],
    flags: [],
    returns:
      'FUNDED answer:fresh|replay previous_allocated new_allocated previous_remaining new_remaining previous_debt new_debt previous_spent new_spent timestamp_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND | TENANT_CLOSED | BUDGET_FROZEN | BUDGET_CLOSED | BUDGET_EXCEEDED | INT64_OVERFLOW | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/governance/get_budget.lua: one budget's record without free-text fields. */
  get_budget: {
    keys: ['budget'],
    args: ['scope'],
    flags: ['no-writes'],
    returns: 'FOUND text_count record{} | NOT_FOUND',
  },
  /** lua/governance/inspect_limits.lua: read how much a tenant owns and its own limits. */
  inspect_limits: {
    keys: ['tenant', 'owned'],
    args: ['tenant_id'],
    flags: ['no-writes'],
    returns: 'NOT_FOUND | LIMITS limits(limit used:int own_limit:int?)*',
  },
  /** lua/governance/list_action_counters.lua: a tenant's counters of actions that still count, in bounded pages: those of calendar windows, or those of runs. */
  list_action_counters: {
    keys: ['run_counter_index'],
    args: ['tenant_id', 'section', 'run', 'scope_prefix', 'after', 'limit'],
    flags: ['no-writes'],
    returns:
      'now_ms next? counters(position scope window kind window_key used:int limit:int policy_id? last_ms expires_ms)*',
  },
  /** lua/governance/list_api_keys.lua: the API keys of one tenant or of all tenants of a partition, without free-text fields, in bounded pages. */
  list_api_keys: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_tenant? next_member? records(text_count record{})*',
  },
  /** lua/governance/list_budgets.lua: the budgets of one tenant or of all tenants of a partition, without free-text fields, in bounded pages. */
  list_budgets: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_tenant? next_member? records(text_count record{})*',
  },
  /** lua/governance/list_budgets_by_scope.lua: a tenant's budgets in the order of their scopes, without free-text fields, in bounded pages. */
  list_budgets_by_scope: {
    keys: ['budget_index'],
    args: ['direction', 'after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_member? records(text_count record{})*',
  },
  /** lua/governance/list_policies.lua: the policies of one tenant, without free-text fields, in bounded pages. */
  list_policies: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_tenant? next_member? records(text_count record{})*',
  },
  /** lua/governance/list_tenants.lua: the tenants of one partition in the order of creation, without free-text fields, in bounded pages. */
  list_tenants: {
    keys: ['tenant_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_tenant? next_member? records(text_count record{})*',
  },
  /** lua/governance/note_key_use.lua: record that an API key is in use, at most once a minute. */
  note_key_use: { keys: ['api_key'], args: [], flags: ['allow-oom'], returns: 'NOTED | UNCHANGED' },
  /** lua/governance/plan_periods.lua: give a budget with a recurrence the boundaries of its next periods. */
  plan_periods: {
    keys: ['budget'],
    args: ['scope', 'unit', 'recurrence'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'PLANNED | SKIP',
  },
  /** lua/governance/plan_window.lua: give a window of a budget the ends of the windows to come. */
  plan_window: {
    keys: ['budget'],
    args: ['scope', 'unit', 'window', 'recurrence'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'PLANNED | SKIP',
  },
  /** lua/governance/read_budgets.lua: some budgets of a partition by their names, without free-text fields. */
  read_budgets: {
    keys: ['tenant_index'],
    args: [],
    rest: true,
    flags: ['no-writes'],
    returns: 'now_ms read:int records(text_count record{})*',
  },
  /** lua/governance/read_texts.lua: the free-text fields of listed records, as many as fit into one run. */
  read_texts: {
    keys: ['tenant_index'],
    args: ['kind'],
    rest: true,
    flags: ['no-writes'],
    returns: 'records(text_count record{})*',
  },
  /** lua/governance/reset_action_counter.lua: set one of a tenant's counters of actions to zero. */
  reset_action_counter: {
    keys: ['run_counter_index'],
    args: [
      'tenant_id',
      'scope',
      'window',
      'window_key',
      'action_kind',
      'risk_class',
      'reason',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: [],
    returns: 'RESET kind used:int limit:int policy_id? last_ms expires_ms previous_used:int | NOT_FOUND',
  },
  /** lua/governance/revoke_api_key.lua: revoke a key permanently, and tell every instance to drop it from its cache. */
  revoke_api_key: {
    keys: ['api_key'],
    args: ['api_key_id', 'reason', 'channel', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'REVOKED record{} | NOT_FOUND | TENANT_CLOSED | ALREADY_REVOKED',
  },
  /** lua/governance/roll_over_budgets.lua: roll over budgets of a partition that nobody has used since their period ended. */
  roll_over_budgets: {
    keys: ['period_index', 'rolled', 'period_plans', 'turned'],
    args: ['limit'],
    flags: ['allow-oom'],
    returns:
      'now_ms rolled:int turned:int next_ms? more:flag damaged_count damaged(scope unit)* unplanned(scope unit window? recurrence? ends?)*',
  },
  /** lua/governance/set_limits.lua: replace a tenant's own limits on what it may own. */
  set_limits: {
    keys: ['tenant', 'owned'],
    args: ['tenant_id', 'operation', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'SET | UNCHANGED | NOT_FOUND',
  },
  /** lua/governance/set_recurrence.lua: let the periods of a budget follow the calendar, or end its periods. */
  set_recurrence: {
    keys: ['budget'],
    args: [
      'tenant_id',
      'scope',
      'unit',
      'recurrence',
      'rollover_policy',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    rest: true,
    flags: [],
    returns: 'CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED',
  },
  /** lua/governance/set_windows.lua: give a budget its windows, or end them. */
  set_windows: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
    returns: 'CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED',
  },
  /** lua/governance/unfreeze_budget.lua: make a frozen ledger usable again. */
  unfreeze_budget: {
    keys: ['budget'],
    args: ['tenant_id', 'scope', 'unit', 'reason', 'metadata', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | ALREADY_ACTIVE',
  },
  /** lua/governance/update_api_key.lua: change the permissions or the description of a key. Its secret and its expiry do not change. */
  update_api_key: {
    keys: ['api_key'],
    args: ['api_key_id', 'channel', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
    returns: 'UPDATED now_ms record{} | NOT_FOUND | TENANT_CLOSED | ALREADY_REVOKED | KEY_EXPIRED',
  },
  /** lua/governance/update_budget.lua: change a ledger's overdraft limit, policies, period or metadata, even if it is frozen. */
  update_budget: {
    keys: ['budget'],
    args: [
      'tenant_id',
      'scope',
      'unit',
      'overdraft_limit',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'period_start',
      'period_end',
      'retention_ms',
    ],
    rest: true,
    flags: [],
    returns:
      'CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | INVALID_PERIOD reason:ENDED|NOT_BEGUN|TOO_SHORT|NO_END|RECURRING | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/governance/update_policy.lua: change what a policy sets, or when and whether it applies. Its pattern and its owner never change. */
  update_policy: {
    keys: ['policy'],
    args: ['tenant_id', 'policy_id', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: [],
    returns:
      'UPDATED record{} | NOT_FOUND | TENANT_CLOSED | DUPLICATE | INVALID_WINDOW | BOTH_LISTS | TOO_MANY limit:int',
  },
  /** lua/governance/update_tenant.lua: change a tenant's name, settings or status. Closing it takes effect at once for everything it owns. */
  update_tenant: {
    keys: ['tenant'],
    args: ['tenant_id', 'status', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
    returns:
      'UPDATED record{} | CLOSING record{} | NOT_FOUND | TENANT_CLOSED | IRREVERSIBLE | TTL_ABOVE_MAX max_ms',
  },
  /** lua/governance/validate_api_key.lua: check whether a secret is valid, and return what it permits. An invalid secret emits an event. */
  validate_api_key: {
    keys: ['secret_hash'],
    args: ['malformed', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns:
      'VALID key_id tenant_id expires_at_ms permissions scope_filter | INVALID reason:INVALID_FORMAT|NOT_FOUND|REVOKED|EXPIRED|TENANT_SUSPENDED|TENANT_CLOSED tenant_id? key_id?',
  },
  /** lua/ledger/balances.lua: the budgets of one tenant that match a subject, in bounded pages of its budget index. */
  balances: {
    keys: ['budget_index'],
    args: ['after', 'limit', 'examine', 'include_children', 'prefix', 'deepest'],
    rest: true,
    flags: ['no-writes'],
    returns: 'next? budgets(scope unit balance)*',
  },
  /** lua/ledger/commit.lua: charge what a hold actually cost, and return the rest. */
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
    returns:
      'COMMITTED answer:fresh|replay charged released unit overage_policy overage debt balances(scope balance)* | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms] | QUARANTINED reason tenant? [again:again] | UNIT_MISMATCH unit scope | BUDGET_FROZEN scope | BUDGET_CLOSED scope | BUDGET_EXCEEDED scope | OVERDRAFT_LIMIT_EXCEEDED scope | INT64_OVERFLOW scope | RATE_LIMITED limit allowed:int retry_ms:int | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/ledger/decide.lua: answer whether a reserve would be granted now, without holding anything. */
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
      'action_facts',
      'scope_count',
    ],
    rest: true,
    flags: [],
    returns:
      'ALLOW answer:fresh|replay | ALLOW_WITH_CAPS answer:fresh|replay caps | DENY answer:fresh|replay reason [scope remaining policy_id window window_key used limit risk_class] | IDEMPOTENCY_MISMATCH | MISSING_RUN_ID | UNDECLARED_KIND | TENANT_SUSPENDED | UNIT_MISMATCH scope units* | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/ledger/direct_debit.lua: charge an amount to every budgeted scope without a hold, or to none. */
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
    returns:
      'APPLIED answer:fresh|replay event_id charged overage_policy debt balances(scope balance)* | IDEMPOTENCY_MISMATCH | TENANT_CLOSED | TENANT_SUSPENDED | INVALID_POLICY overage_policy | NOT_FOUND | UNIT_MISMATCH scope units* | BUDGET_FROZEN scope remaining | BUDGET_CLOSED scope remaining | BUDGET_EXCEEDED scope remaining [window] | OVERDRAFT_LIMIT_EXCEEDED scope | INT64_OVERFLOW scope | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/ledger/extend.lua: move the expiry of a live lease further out. The amount held does not change. */
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
    returns:
      'ACTIVE answer:fresh|replay expires_at_ms remaining_ttl_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms] | QUARANTINED reason tenant? [again:again] | MAX_EXTENSIONS_EXCEEDED allowed:int',
  },
  /** lua/ledger/forecast_funds.lua: what the budgets lack for an amount, and when holds that end, new periods or new windows will have returned it. */
  forecast_funds: {
    keys: ['ttl_index'],
    args: ['tenant_id', 'unit', 'amount', 'reservation_id', 'use'],
    rest: true,
    flags: ['no-writes'],
    returns:
      'FORECAST now_ms scope remaining requested short_by enough_at_ms? unknown window? holds(amount deadline_ms)*',
  },
  /** lua/ledger/get_reservation.lua: one reservation's record. An overdue hold is expired first, so that it is never returned as live. */
  get_reservation: {
    keys: ['reservation'],
    args: ['tenant_id', 'reservation_id', 'retention_ms', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns:
      'FOUND defect? quarantined? record{} | NOT_FOUND [defect] | FORBIDDEN | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms]',
  },
  /** lua/ledger/leave_waiters.lua: give up the place of a reserve that no longer waits for funds, and wake the next one. */
  leave_waiters: {
    keys: ['budget', 'waiter_queue', 'waiters'],
    args: ['place'],
    flags: ['allow-oom'],
    returns: 'LEFT',
  },
  /** lua/ledger/list_holds.lua: the live holds of a budget in the order of their reclaim deadlines, in bounded pages of an index of deadlines. */
  list_holds: {
    keys: ['deadline_index'],
    args: ['tenant_id', 'scope', 'unit', 'walked_ms', 'walked_id', 'examine', 'limit'],
    flags: ['no-writes'],
    returns:
      'walked_ms:text? walked_id? examined:int holds(reservation_id amount expires_at_ms:int deadline_ms:int)*',
  },
  /** lua/ledger/list_reservations.lua: the tenant's reservations that match some conditions, in bounded pages of its reservation index. */
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
    returns:
      'now_ms walked_ms:text? walked_id? outcome_count outcomes(word detail? second_detail?)* unreadable_count unreadable(reservation_id reason)* rows(id st? tn? tv? ws? ap? wf? ag? ts? dm? ak? an? at? ik? un? am? ca? ex? fa? ch?)*',
  },
  /** lua/ledger/release.lua: return a hold unused. Neither debt nor a frozen budget prevents this. */
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
    returns:
      'RELEASED answer:fresh|replay released unit balances(scope balance)* | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms] | QUARANTINED reason tenant? [again:again]',
  },
  /** lua/ledger/renew_waiters.lua: say that reserves of one instance still wait, and learn whose turn it is. */
  renew_waiters: {
    keys: ['waiters'],
    args: ['tenant_id', 'lease_ms'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'RENEWED places*',
  },
  /** lua/ledger/reservation_scope.lua: the scope that a reservation was made for, in any form of its record. */
  reservation_scope: {
    keys: ['reservation'],
    args: [],
    flags: ['no-writes'],
    returns: 'SCOPE scope_path | UNKNOWN | NOT_FOUND',
  },
  /** lua/ledger/reserve.lua: hold an amount against every budgeted scope, or nothing. */
  reserve: {
    keys: ['reservation', 'idempotency', 'tenant'],
    args: [
      'reservation_id',
      'fingerprint',
      'subject',
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
      'action_facts',
      'observe',
      'waiter',
    ],
    rest: true,
    flags: [],
    returns:
      'ALLOW answer:fresh|replay reservation_id expires_at_ms remaining_ttl_ms overage_policy balances(scope balance)* | ALLOW_WITH_CAPS answer:fresh|replay reservation_id expires_at_ms remaining_ttl_ms overage_policy caps balances(scope balance)* | ALLOW_DRY_RUN answer:fresh|observed|replay balances(scope balance)* | DRY_RUN_WITH_CAPS answer:fresh|observed|replay caps balances(scope balance)* | DENY answer:fresh|observed|replay reason [scope remaining policy_id window window_key used limit risk_class] | IDEMPOTENCY_MISMATCH | TENANT_CLOSED | TENANT_SUSPENDED | INVALID_POLICY overage_policy | NOT_FOUND | UNIT_MISMATCH scope units* | BUDGET_FROZEN scope remaining | BUDGET_CLOSED scope remaining | OVERDRAFT_LIMIT_EXCEEDED scope remaining | DEBT_OUTSTANDING scope remaining | BUDGET_EXCEEDED scope remaining [window] | INT64_OVERFLOW scope | ACTION_KIND_DENIED scope policy_id | ACTION_KIND_NOT_ALLOWED scope policy_id | ACTION_QUOTA_EXCEEDED scope policy_id window window_key used limit risk_class | MISSING_RUN_ID | UNDECLARED_KIND | LIMIT_EXCEEDED limit allowed:int used:int | RATE_LIMITED limit allowed:int retry_ms:int | WAITING number scope | RECLAIMED now_ms outcomes(word detail? second_detail?)*',
  },
  /** lua/overview/census.lua: count a partition's tenants, budgets, webhook subscriptions, policies and counters of quotas, a bounded run at a time. */
  census: {
    keys: ['tenant_index'],
    args: ['tenant', 'kind', 'after', 'limit', 'with_system'],
    flags: ['no-writes'],
    returns:
      'now_ms next_tenant? next_kind? next_after? examined:int text_count counts{} held_count held(unit amount)* budgets_count budgets(scope unit over:flag allocated remaining debt overdraft_limit)* webhooks_count webhooks(subscription_id url failures:int failed_at_ms:text?)* quotas(scope action_kind window used:int limit:int)*',
  },
  /** lua/overview/count_events.lua: how many events of each type a partition's log has, by time, newest first, a bounded stretch of it at a time. */
  count_events: {
    keys: ['event_log'],
    args: ['start', 'stop', 'examine', 'slot_ms', 'keep'],
    flags: ['no-writes'],
    returns:
      'next_start? newest? examined:int counts_count counts(slot:int type reason? events:int)* recent(entry_id type)*',
  },
  /** lua/redis/probe.lua: prove that this user may run a script that writes, and every command that scripts use. */
  probe: { keys: [], args: ['key', 'channel'], rest: true, flags: ['allow-oom'], returns: 'denied*' },
  /** lua/spikes/burn_rate_tenants.lua: a partition's tenants, and which of them have webhook subscriptions, a bounded run at a time. */
  burn_rate_tenants: {
    keys: ['tenant_index'],
    args: ['after', 'limit'],
    flags: ['no-writes'],
    returns: 'next? tenants(tenant has_webhooks:flag)*',
  },
  /** lua/spikes/check_auth_rate.lua: count authentications of all instances, and emit the events of a failure rate that exceeds a threshold. */
  check_auth_rate: {
    keys: ['event_log'],
    args: ['attempts', 'failures', 'least'],
    rest: true,
    flags: [],
    returns: 'CHECKED emitted(threshold window_s)*',
  },
  /** lua/spikes/check_burn_rates.lua: compare how fast a tenant's budgets are spent with how fast they were spent before, a bounded run at a time. */
  check_burn_rates: {
    keys: ['event_log', 'budget_index', 'checked'],
    args: ['tenant', 'after', 'limit', 'rest_ms'],
    rest: true,
    flags: [],
    returns: 'RESTS | CHECKED next? emitted:int',
  },
  /** lua/spikes/check_latency.lua: count how long an operation took on all instances, and emit an event if its 99th percentile exceeds the threshold. */
  check_latency: {
    keys: ['event_log', 'announced'],
    args: ['operation', 'threshold_ms', 'window_s', 'least'],
    rest: true,
    flags: [],
    returns: 'QUIET | EMITTED p99_ms:int',
  },
  /** lua/spikes/check_rates.lua: emit the events of a tenant's denial and expiry rates that exceed a threshold. */
  check_rates: {
    keys: ['event_log', 'reservation_index', 'rates_due'],
    args: ['tenant', 'least'],
    rest: true,
    flags: [],
    returns: 'CHECKED emitted(metric threshold window_s)*',
  },
  /** lua/spikes/count_rates.lua: count the denials and expirations that a partition's event log has gained, by tenant and time. */
  count_rates: {
    keys: ['event_log', 'rates_cursor', 'rates_due'],
    args: ['examine', 'longest_ms', 'due'],
    flags: [],
    returns: 'more:flag counted:int tenants(tenant)*',
  },
  /** lua/webhooks/bulk_webhook.lua: apply a bulk action to one subscription, once. */
  bulk_webhook: {
    keys: ['webhook'],
    args: [
      'subscription_id',
      'action',
      'keep_ms',
      'correlation_id',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    flags: ['allow-oom'],
    returns:
      'SUCCEEDED | SKIPPED reason:ALREADY_DELETED|ALREADY_IN_TARGET_STATE | NOT_FOUND | TENANT_CLOSED | INVALID_TRANSITION current_status | NO_SELECTOR | ADMIN_ONLY selector | TOO_MANY_MARKS limit:int',
  },
  /** lua/webhooks/create_webhook.lua: subscribe an endpoint to events of one tenant, or of all. */
  create_webhook: {
    keys: ['webhook', 'webhook_index', 'tenant'],
    args: [
      'tenant_id',
      'subscription_id',
      'event_types',
      'event_categories',
      'operation',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'max_webhooks',
    ],
    rest: true,
    flags: [],
    returns:
      'CREATED record{} | TENANT_NOT_FOUND | TENANT_CLOSED | NO_SELECTOR | ADMIN_ONLY selector | TOO_MANY limit:int | TOO_MANY_MARKS limit:int | LIMIT_EXCEEDED limit allowed:int used:int',
  },
  /** lua/webhooks/delete_webhook.lua: delete a subscription permanently. */
  delete_webhook: {
    keys: ['webhook'],
    args: ['tenant_id', 'subscription_id', 'operation', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
    returns: 'DELETED | NOT_FOUND | TENANT_CLOSED',
  },
  /** lua/webhooks/dispatch_page.lua: hold the lease of a partition's dispatch, and read the next events of its log for the consumer group. */
  dispatch_page: {
    keys: ['lease', 'event_log'],
    args: ['token', 'lease_ms', 'take', 'after', 'limit'],
    flags: ['allow-oom'],
    returns:
      'HELD now_ms lease:renewed|taken|none lag:int? oldest_ms? queues:int? retrying:int? to_recover:int? last_read? more:flag events(entry_id field_count event{})* | OTHER now_ms lapses_in_ms | FREE now_ms',
  },
  /** lua/webhooks/due_retries.lua: the deliveries of a partition whose next attempt is due, oldest first, and when the next one will be due. */
  due_retries: {
    keys: ['lease', 'retrying'],
    args: ['token', 'first', 'limit'],
    flags: ['no-writes'],
    returns: 'DUE now_ms next_due_ms? due(ref due_ms)* | NOT_HELD',
  },
  /** lua/webhooks/find_webhook.lua: read one subscription, whole or only the fields for a delivery attempt, unless it is unchanged. */
  find_webhook: {
    keys: ['webhook', 'webhook_revision'],
    args: ['known', 'whole'],
    flags: ['no-writes'],
    returns: 'UNCHANGED | NOT_FOUND revision | FOUND revision now_ms record{}',
  },
  /** lua/webhooks/finish_replay.lua: record what a replay queued, and block the next replay only until these deliveries had their first attempts. */
  finish_replay: {
    keys: ['webhook', 'replay'],
    args: [
      'subscription_id',
      'tenant_id',
      'replay_id',
      'waiting',
      'waiting_ms',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'events_queued',
    ],
    rest: true,
    flags: ['allow-oom'],
    returns: 'FINISHED',
  },
  /** lua/webhooks/list_deliveries.lua: the matching deliveries of a subscription, newest first, in one bounded page of a partition's index. */
  list_deliveries: {
    keys: ['delivery_index'],
    args: ['from_ms', 'to_ms', 'after_ms', 'after_ref', 'status', 'examine', 'limit'],
    flags: ['no-writes'],
    returns: 'next_ms? next_ref? examined:int deliveries(ref created_ms text_count record{})*',
  },
  /** lua/webhooks/list_webhooks.lua: the webhook subscriptions of one owner or of all tenants, without free-text fields, in bounded pages. */
  list_webhooks: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
    returns: 'now_ms next_tenant? next_member? records(text_count record{})*',
  },
  /** lua/webhooks/plan_retry.lua: add a delivery to the index of retries, before settle_delivery removes it from its ordered queue. */
  plan_retry: {
    keys: ['delivery'],
    args: ['ref', 'retry_in_ms'],
    flags: [],
    returns: 'PLANNED now_ms | ENDED now_ms',
  },
  /** lua/webhooks/queue_deliveries.lua: create the deliveries of a batch of events, push them to their queues, and acknowledge the events, in one run. */
  queue_deliveries: {
    keys: ['lease', 'event_log'],
    args: ['token', 'retention_ms', 'event_count'],
    rest: true,
    flags: ['allow-oom'],
    returns: 'QUEUED now_ms made? forgotten:int | NOT_HELD',
  },
  /** lua/webhooks/read_deliveries.lua: what an attempt needs to know about each of some deliveries, with their events. */
  read_deliveries: {
    keys: ['event_log'],
    args: [],
    rest: true,
    flags: ['no-writes'],
    returns:
      'READ now_ms deliveries(ref status? attempts:int? created_ms? next_retry_ms? field_count event{})*',
  },
  /** lua/webhooks/record_delivery_outcome.lua: update a subscription's count of consecutive failures, and disable it after too many. */
  record_delivery_outcome: {
    keys: ['subscription'],
    args: ['subscription_id', 'outcome', 'delivery_id', 'trace', 'request_id'],
    flags: ['allow-oom'],
    returns: 'RECORDED failures:int | COUNTED_BEFORE | DISABLED owner | GONE',
  },
  /** lua/webhooks/replay_events.lua: queue some of a partition's events again for one subscription, in the given order. */
  replay_events: {
    keys: ['event_log'],
    args: ['subscription_id', 'replay_id', 'retention_ms'],
    rest: true,
    flags: [],
    returns: 'QUEUED forgotten:int taken:int deliveries(ref tenant)*',
  },
  /** lua/webhooks/set_webhook_security.lua: replace the configuration of permitted webhook destinations. */
  set_webhook_security: {
    keys: ['webhook_security'],
    args: ['config', 'actor', 'key_id', 'request_id', 'trace'],
    flags: [],
    returns: 'SET',
  },
  /** lua/webhooks/settle_delivery.lua: record the outcome of a delivery, and remove it from its queue. */
  settle_delivery: {
    keys: ['delivery'],
    args: [
      'ref',
      'queue',
      'outcome',
      'attempted',
      'duration_ms',
      'response_status',
      'message',
      'retry_in_ms',
      'announce',
      'reason',
      'subscription_id',
      'delivery_id',
      'event_id',
      'trace',
      'request_id',
    ],
    flags: ['allow-oom'],
    returns:
      'SETTLED now_ms attempts:int left_in_queue:int | ENDED now_ms final_status left_in_queue:int | GONE now_ms left_in_queue:int',
  },
  /** lua/webhooks/skip_events.lua: move the consumer group past events without subscribers, without reading them. */
  skip_events: {
    keys: ['lease', 'event_log'],
    args: ['token', 'up_to', 'entries_added'],
    flags: ['allow-oom'],
    returns:
      'UP_TO now_ms entry_id entries_added | SKIPPED now_ms | WATCHED now_ms | OTHER now_ms lapses_in_ms | FREE now_ms',
  },
  /** lua/webhooks/start_replay.lua: start a replay of a subscription, unless another one is in progress. */
  start_replay: {
    keys: ['webhook', 'replay'],
    args: ['tenant_id', 'replay_id', 'lease_ms', 'known_done'],
    flags: [],
    returns:
      'STARTED | INACTIVE current_status | IN_PROGRESS | WAITING replay_id places(partition ref)* | NOT_FOUND | TENANT_CLOSED',
  },
  /** lua/webhooks/update_webhook.lua: change a subscription, or pause and resume it. */
  update_webhook: {
    keys: ['webhook'],
    args: [
      'tenant_id',
      'subscription_id',
      'status',
      'known_secret',
      'known_headers',
      'rotation_ms',
      'operation',
      'actor',
      'key_id',
      'request_id',
      'trace',
    ],
    rest: true,
    flags: [],
    returns:
      'UPDATED record{} | NOT_FOUND | TENANT_CLOSED | STALE | NO_SELECTOR | ADMIN_ONLY selector | TOO_MANY_MARKS limit:int',
  },
  /** lua/webhooks/webhook_targets.lua: the active subscriptions of some owners for the dispatcher: all of them, or those changed since a revision. */
  webhook_targets: {
    keys: ['webhook_revision'],
    args: [],
    rest: true,
    flags: ['no-writes'],
    returns: 'revision owners(form:ALL|CHANGED next? target_count targets(id text_count record{})*)*',
  },
  /** lua/worker/lease_announce.lua: announce that an instance shares in leased work, and return how many instances do and its place among them. */
  lease_announce: {
    keys: ['instances', 'reports'],
    args: ['instance', 'lease_ms', 'report'],
    flags: ['allow-oom'],
    returns: 'ALIVE now_ms alive:int place:int next_lapse_in_ms?',
  },
  /** lua/worker/lease_instances.lua: the instances that share leased work, and what each last reported about itself. */
  lease_instances: {
    keys: ['instances', 'reports'],
    args: [],
    flags: ['no-writes'],
    returns: 'INSTANCES now_ms instances(instance lapses_in_ms report)*',
  },
  /** lua/worker/lease_release.lua: give up the lease of a partition, if the caller still holds it. */
  lease_release: { keys: ['lease'], args: ['token'], flags: ['allow-oom'], returns: 'RELEASED | NOT_HELD' },
} as const satisfies Record<string, ScriptSignature>;

export interface Balance {
  readonly remaining: string;
  readonly reserved: string;
  readonly spent: string;
  readonly allocated: string;
  readonly debt: string;
  readonly overdraftLimit: string;
  readonly isOverLimit: boolean;
}

/** What each script answers. */
export interface ScriptReplies {
  readonly append_audit_rows: {
    readonly status: 'APPENDED';
    readonly appended: number;
    readonly removed: number;
  };
  readonly count_expirations: {
    readonly nextStart?: string;
    readonly examined: number;
    readonly counts: readonly { readonly slot: number; readonly expirations: number }[];
  };
  readonly expirations: {
    readonly nextStart?: string;
    readonly rows: readonly {
      readonly entryId: string;
      readonly atMs: number;
      readonly state: 'EXPIRED' | 'QUARANTINED';
      readonly event: ReadonlyMap<string, string>;
    }[];
  };
  readonly inspect_reservation:
    | {
        readonly status: 'FOUND';
        readonly nowMs: number;
        readonly goesAtMs?: number;
        readonly quarantine?: string;
        readonly defect?: string;
        readonly word?: string;
        readonly detail?: string;
        readonly secondDetail?: string;
        readonly endEvent: ReadonlyMap<string, string>;
        readonly record: ReadonlyMap<string, string>;
      }
    | { readonly status: 'NOT_FOUND' };
  readonly list_audit_log: {
    readonly nextStart?: string;
    readonly examined: number;
    readonly rows: readonly { readonly entryId: string; readonly row: ReadonlyMap<string, string> }[];
  };
  readonly pack_records: {
    readonly status: 'PACKED';
    readonly examined: number;
    readonly packed: number;
    readonly remaining: number;
  };
  readonly trim_audit_log: { readonly status: 'TRIMMED'; readonly removed: number; readonly more: boolean };
  readonly trim_reservation_index: {
    readonly status: 'TRIMMED';
    readonly tenant?: string;
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly examined: number;
    readonly removed: number;
    readonly damaged: readonly string[];
  };
  readonly verify_budgets: {
    readonly nowMs: number;
    readonly next?: string;
    readonly budgets: readonly {
      readonly budget: string;
      readonly remaining?: string;
      readonly reserved?: string;
      readonly spent?: string;
      readonly allocated?: string;
      readonly debt?: string;
      readonly status?: string;
      readonly periodDefect?: string;
    }[];
  };
  readonly verify_holds: {
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly hasStepped: boolean;
    readonly sums: readonly { readonly budget: string; readonly holds: number; readonly amount: string }[];
    readonly moving: readonly {
      readonly reservationId: string;
      readonly bornMs: number;
      readonly endedMs?: number;
      readonly amount: string;
      readonly budgets: readonly string[];
    }[];
    readonly unreadable: readonly {
      readonly reservationId: string;
      readonly reason: string;
      readonly quarantined: boolean;
    }[];
    readonly named: readonly {
      readonly reservationId: string;
      readonly amount: string;
      readonly quarantined: boolean;
      readonly budget: string;
    }[];
  };
  readonly begin_bulk_action:
    | {
        readonly status: 'BEGUN';
        readonly correlationId: string;
        readonly requestId: string;
        readonly trace?: string;
        readonly rows?: string;
      }
    | { readonly status: 'ENDED'; readonly response: string }
    | { readonly status: 'UNKNOWN' }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' };
  readonly end_bulk_action: {
    readonly status: 'ENDED';
    readonly answer: 'fresh' | 'replay';
    readonly response: string;
  };
  readonly advance_tenant:
    | {
        readonly status: 'ADVANCED';
        readonly clockNowMs: number;
        readonly more: boolean;
        readonly rolled: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
        readonly damaged: readonly { readonly scope: string; readonly unit: string }[];
        readonly unplanned: readonly {
          readonly scope: string;
          readonly unit: string;
          readonly window?: string;
          readonly recurrence?: string;
          readonly ends?: string;
        }[];
      }
    | { readonly status: 'NOT_FOUND' };
  readonly begin_advance:
    | { readonly status: 'ADVANCING'; readonly fromMs: number; readonly tenants: readonly string[] }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'NOT_FORWARD'; readonly clockNowMs: number }
    | { readonly status: 'TOO_FAR'; readonly clockNowMs: number };
  readonly create_test_clock:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'LIMIT_EXCEEDED'; readonly used: number };
  readonly delete_test_clock:
    { readonly status: 'DELETED' } | { readonly status: 'NOT_FOUND' } | { readonly status: 'IN_USE' };
  readonly end_advance: { readonly status: 'ENDED' } | { readonly status: 'NOT_FOUND' };
  readonly join_test_clock:
    | { readonly status: 'JOINED'; readonly clockNowMs: number; readonly joinedAtMs: number }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'ADVANCING'; readonly toMs: number }
    | { readonly status: 'LIMIT_EXCEEDED'; readonly used: number };
  readonly leave_test_clock: { readonly status: 'LEFT' } | { readonly status: 'STAYS' };
  readonly list_test_clocks: {
    readonly clocks: readonly {
      readonly tenants: readonly string[];
      readonly record: ReadonlyMap<string, string>;
    }[];
  };
  readonly emit_store_outage: { readonly status: 'EMITTED' } | { readonly status: 'SAME' };
  readonly list_events: {
    readonly nextStart?: string;
    readonly examined: number;
    readonly events: readonly { readonly entryId: string; readonly event: ReadonlyMap<string, string> }[];
  };
  readonly trim_event_log: {
    readonly status: 'TRIMMED';
    readonly removed: number;
    readonly more: boolean;
    readonly held: boolean;
  };
  readonly keep_evidence:
    | { readonly status: 'KEPT' }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      };
  readonly cleanup_reservations: {
    readonly status: 'CLEANED';
    readonly nowMs: number;
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly examined: number;
    readonly reservations: readonly {
      readonly reservationId: string;
      readonly word: string;
      readonly detail?: string;
      readonly secondDetail?: string;
    }[];
  };
  readonly decide_quarantined:
    | {
        readonly status: 'RETRIED';
        readonly nowMs: number;
        readonly word: string;
        readonly detail?: string;
        readonly secondDetail?: string;
      }
    | {
        readonly status: 'RELEASED';
        readonly nowMs: number;
        readonly tenant: string;
        readonly amount?: string;
        readonly unit?: string;
        readonly returnedScopes: readonly string[];
        readonly kept: readonly { readonly scope: string; readonly reason: string }[];
      }
    | { readonly status: 'NOT_FOUND' };
  readonly expire:
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'SKIP'; readonly reason: string; readonly deadlineMs?: number }
    | {
        readonly status: 'EXPIRED';
        readonly tenant: string;
        readonly deadlineMs: number;
        readonly nowMs: number;
      }
    | {
        readonly status: 'QUARANTINED';
        readonly reason: string;
        readonly tenant?: string;
        readonly again?: 'again';
      };
  readonly expire_page: {
    readonly status: 'JUDGED';
    readonly nowMs: number;
    readonly outcomes: readonly {
      readonly word: string;
      readonly detail?: string;
      readonly secondDetail?: string;
    }[];
  };
  readonly inspect_quarantined:
    | {
        readonly status: 'QUARANTINED';
        readonly entry: string;
        readonly defect?: string;
        readonly amount?: string;
        readonly unit?: string;
        readonly returnedScopes: readonly string[];
        readonly kept: readonly { readonly scope: string; readonly reason: string }[];
        readonly record: ReadonlyMap<string, string>;
      }
    | { readonly status: 'NOT_FOUND' };
  readonly reconcile: {
    readonly status: 'RECONCILED';
    readonly nowMs: number;
    readonly tenant?: string;
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly tally?: string;
    readonly examined: number;
    readonly recounts: readonly {
      readonly tenant: string;
      readonly counted: number;
      readonly live: number;
    }[];
    readonly near: readonly {
      readonly tenant: string;
      readonly limit: string;
      readonly used: number;
      readonly allowed: number;
    }[];
    readonly found: readonly { readonly reservationId: string; readonly place: 'MISSING' | 'MISPLACED' }[];
  };
  readonly sweep_page:
    | {
        readonly status: 'HELD';
        readonly nowMs: number;
        readonly lease: 'renewed' | 'taken' | 'none';
        readonly due: number;
        readonly oldestDueMs?: number;
        readonly nextDeadlineMs?: number;
        readonly quarantined: number;
        readonly awaiting: number;
        readonly oldestAwaitingMs?: number;
        readonly reservationIds: readonly string[];
      }
    | { readonly status: 'OTHER'; readonly nowMs: number; readonly lapsesInMs: number }
    | { readonly status: 'FREE'; readonly nowMs: number };
  readonly sweep_state: {
    readonly status: 'STATE';
    readonly nowMs: number;
    readonly holder?: string;
    readonly lapsesInMs: number;
    readonly indexed: number;
    readonly due: number;
    readonly oldestDueMs?: number;
    readonly nextDeadlineMs?: number;
    readonly quarantined: number;
    readonly awaiting: number;
    readonly oldestAwaitingMs?: number;
  };
  readonly authenticate:
    | {
        readonly status: 'OK';
        readonly keyId: string;
        readonly tenantId: string;
        readonly expiresInMs: number;
        readonly permissions: string;
        readonly scopeFilter: string;
        readonly referencesEvidence: boolean;
        readonly useNoted: boolean;
      }
    | { readonly status: 'UNKNOWN' }
    | { readonly status: 'REVOKED' }
    | { readonly status: 'EXPIRED' }
    | { readonly status: 'TENANT_SUSPENDED' };
  readonly bulk_budget:
    | { readonly status: 'SUCCEEDED' }
    | { readonly status: 'SKIPPED'; readonly reason: 'ALREADY_IN_TARGET_STATE' }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' }
    | { readonly status: 'BUDGET_FROZEN' }
    | { readonly status: 'BUDGET_EXCEEDED' }
    | { readonly status: 'INT64_OVERFLOW' }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly bulk_tenant:
    | { readonly status: 'SUCCEEDED' }
    | { readonly status: 'SKIPPED'; readonly reason: 'ALREADY_IN_TARGET_STATE' }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'INVALID_TRANSITION' };
  readonly close_tenant:
    | {
        readonly status: 'STEP';
        readonly nextPhase: string;
        readonly nextCursor?: string;
        readonly nowMs: number;
        readonly changed: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      }
    | { readonly status: 'DONE' }
    | { readonly status: 'NOT_CLOSING' };
  readonly create_api_key:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'TENANT_NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'EXPIRES_IN_PAST' }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      };
  readonly create_budget:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'TENANT_NOT_FOUND' }
    | { readonly status: 'TENANT_SUSPENDED' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'DUPLICATE' }
    | { readonly status: 'INVALID_PERIOD'; readonly reason: 'ENDED' | 'NOT_BEGUN' | 'TOO_SHORT' }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      };
  readonly create_policy:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'TENANT_NOT_FOUND' }
    | { readonly status: 'TENANT_SUSPENDED' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'DUPLICATE' }
    | { readonly status: 'TOO_MANY'; readonly limit: number }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      };
  readonly create_tenant:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'EXISTS'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'DUPLICATE' };
  readonly expire_api_keys: {
    readonly status: 'EXPIRED';
    readonly announced: number;
    readonly more: boolean;
  };
  readonly freeze_budget:
    | { readonly status: 'CHANGED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' }
    | { readonly status: 'BUDGET_FROZEN' };
  readonly fund_budget:
    | {
        readonly status: 'FUNDED';
        readonly answer: 'fresh' | 'replay';
        readonly previousAllocated: string;
        readonly newAllocated: string;
        readonly previousRemaining: string;
        readonly newRemaining: string;
        readonly previousDebt: string;
        readonly newDebt: string;
        readonly previousSpent: string;
        readonly newSpent: string;
        readonly timestampMs: number;
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_FROZEN' }
    | { readonly status: 'BUDGET_CLOSED' }
    | { readonly status: 'BUDGET_EXCEEDED' }
    | { readonly status: 'INT64_OVERFLOW' }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly get_budget:
    | { readonly status: 'FOUND'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' };
  readonly inspect_limits:
    | { readonly status: 'NOT_FOUND' }
    | {
        readonly status: 'LIMITS';
        readonly limits: readonly {
          readonly limit: string;
          readonly used: number;
          readonly ownLimit?: number;
        }[];
      };
  readonly list_action_counters: {
    readonly nowMs: number;
    readonly next?: string;
    readonly counters: readonly {
      readonly position: string;
      readonly scope: string;
      readonly window: string;
      readonly kind: string;
      readonly windowKey: string;
      readonly used: number;
      readonly limit: number;
      readonly policyId?: string;
      readonly lastMs: number;
      readonly expiresMs: number;
    }[];
  };
  readonly list_api_keys: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly list_budgets: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly list_budgets_by_scope: {
    readonly nowMs: number;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly list_policies: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly list_tenants: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly note_key_use: { readonly status: 'NOTED' } | { readonly status: 'UNCHANGED' };
  readonly plan_periods: { readonly status: 'PLANNED' } | { readonly status: 'SKIP' };
  readonly plan_window: { readonly status: 'PLANNED' } | { readonly status: 'SKIP' };
  readonly read_budgets: {
    readonly nowMs: number;
    readonly read: number;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly read_texts: { readonly records: readonly { readonly record: ReadonlyMap<string, string> }[] };
  readonly reset_action_counter:
    | {
        readonly status: 'RESET';
        readonly kind: string;
        readonly used: number;
        readonly limit: number;
        readonly policyId?: string;
        readonly lastMs: number;
        readonly expiresMs: number;
        readonly previousUsed: number;
      }
    | { readonly status: 'NOT_FOUND' };
  readonly revoke_api_key:
    | { readonly status: 'REVOKED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'ALREADY_REVOKED' };
  readonly roll_over_budgets: {
    readonly nowMs: number;
    readonly rolled: number;
    readonly turned: number;
    readonly nextMs?: number;
    readonly more: boolean;
    readonly damaged: readonly { readonly scope: string; readonly unit: string }[];
    readonly unplanned: readonly {
      readonly scope: string;
      readonly unit: string;
      readonly window?: string;
      readonly recurrence?: string;
      readonly ends?: string;
    }[];
  };
  readonly set_limits:
    { readonly status: 'SET' } | { readonly status: 'UNCHANGED' } | { readonly status: 'NOT_FOUND' };
  readonly set_recurrence:
    | { readonly status: 'CHANGED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' };
  readonly set_windows:
    | { readonly status: 'CHANGED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' };
  readonly unfreeze_budget:
    | { readonly status: 'CHANGED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' }
    | { readonly status: 'ALREADY_ACTIVE' };
  readonly update_api_key:
    | { readonly status: 'UPDATED'; readonly nowMs: number; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'ALREADY_REVOKED' }
    | { readonly status: 'KEY_EXPIRED' };
  readonly update_budget:
    | { readonly status: 'CHANGED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'BUDGET_CLOSED' }
    | {
        readonly status: 'INVALID_PERIOD';
        readonly reason: 'ENDED' | 'NOT_BEGUN' | 'TOO_SHORT' | 'NO_END' | 'RECURRING';
      }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly update_policy:
    | { readonly status: 'UPDATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'DUPLICATE' }
    | { readonly status: 'INVALID_WINDOW' }
    | { readonly status: 'BOTH_LISTS' }
    | { readonly status: 'TOO_MANY'; readonly limit: number };
  readonly update_tenant:
    | { readonly status: 'UPDATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'CLOSING'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'IRREVERSIBLE' }
    | { readonly status: 'TTL_ABOVE_MAX'; readonly maxMs: number };
  readonly validate_api_key:
    | {
        readonly status: 'VALID';
        readonly keyId: string;
        readonly tenantId: string;
        readonly expiresAtMs: number;
        readonly permissions: string;
        readonly scopeFilter: string;
      }
    | {
        readonly status: 'INVALID';
        readonly reason:
          'INVALID_FORMAT' | 'NOT_FOUND' | 'REVOKED' | 'EXPIRED' | 'TENANT_SUSPENDED' | 'TENANT_CLOSED';
        readonly tenantId?: string;
        readonly keyId?: string;
      };
  readonly balances: {
    readonly next?: string;
    readonly budgets: readonly { readonly scope: string; readonly unit: string; readonly balance: Balance }[];
  };
  readonly commit:
    | {
        readonly status: 'COMMITTED';
        readonly answer: 'fresh' | 'replay';
        readonly charged: string;
        readonly released: string;
        readonly unit: string;
        readonly overagePolicy: string;
        readonly overage: string;
        readonly debt: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'NOT_FOUND'; readonly defect?: string }
    | { readonly status: 'FORBIDDEN' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'RESERVATION_FINALIZED'; readonly state: string }
    | {
        readonly status: 'RESERVATION_EXPIRED';
        readonly onAccess?: 'now';
        readonly tenant?: string;
        readonly deadlineMs?: number;
        readonly nowMs?: number;
      }
    | {
        readonly status: 'QUARANTINED';
        readonly reason: string;
        readonly tenant?: string;
        readonly again?: 'again';
      }
    | { readonly status: 'UNIT_MISMATCH'; readonly unit: string; readonly scope: string }
    | { readonly status: 'BUDGET_FROZEN'; readonly scope: string }
    | { readonly status: 'BUDGET_CLOSED'; readonly scope: string }
    | { readonly status: 'BUDGET_EXCEEDED'; readonly scope: string }
    | { readonly status: 'OVERDRAFT_LIMIT_EXCEEDED'; readonly scope: string }
    | { readonly status: 'INT64_OVERFLOW'; readonly scope: string }
    | {
        readonly status: 'RATE_LIMITED';
        readonly limit: string;
        readonly allowed: number;
        readonly retryMs: number;
      }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly decide:
    | { readonly status: 'ALLOW'; readonly answer: 'fresh' | 'replay' }
    | { readonly status: 'ALLOW_WITH_CAPS'; readonly answer: 'fresh' | 'replay'; readonly caps: string }
    | {
        readonly status: 'DENY';
        readonly answer: 'fresh' | 'replay';
        readonly reason: string;
        readonly scope?: string;
        readonly remaining?: string;
        readonly policyId?: string;
        readonly window?: string;
        readonly windowKey?: string;
        readonly used?: string;
        readonly limit?: string;
        readonly riskClass?: string;
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'MISSING_RUN_ID' }
    | { readonly status: 'UNDECLARED_KIND' }
    | { readonly status: 'TENANT_SUSPENDED' }
    | { readonly status: 'UNIT_MISMATCH'; readonly scope: string; readonly units: readonly string[] }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly direct_debit:
    | {
        readonly status: 'APPLIED';
        readonly answer: 'fresh' | 'replay';
        readonly eventId: string;
        readonly charged: string;
        readonly overagePolicy: string;
        readonly debt: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'TENANT_SUSPENDED' }
    | { readonly status: 'INVALID_POLICY'; readonly overagePolicy: string }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'UNIT_MISMATCH'; readonly scope: string; readonly units: readonly string[] }
    | { readonly status: 'BUDGET_FROZEN'; readonly scope: string; readonly remaining: string }
    | { readonly status: 'BUDGET_CLOSED'; readonly scope: string; readonly remaining: string }
    | {
        readonly status: 'BUDGET_EXCEEDED';
        readonly scope: string;
        readonly remaining: string;
        readonly window?: string;
      }
    | { readonly status: 'OVERDRAFT_LIMIT_EXCEEDED'; readonly scope: string }
    | { readonly status: 'INT64_OVERFLOW'; readonly scope: string }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly extend:
    | {
        readonly status: 'ACTIVE';
        readonly answer: 'fresh' | 'replay';
        readonly expiresAtMs: number;
        readonly remainingTtlMs: number;
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'NOT_FOUND'; readonly defect?: string }
    | { readonly status: 'FORBIDDEN' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'RESERVATION_FINALIZED'; readonly state: string }
    | {
        readonly status: 'RESERVATION_EXPIRED';
        readonly onAccess?: 'now';
        readonly tenant?: string;
        readonly deadlineMs?: number;
        readonly nowMs?: number;
      }
    | {
        readonly status: 'QUARANTINED';
        readonly reason: string;
        readonly tenant?: string;
        readonly again?: 'again';
      }
    | { readonly status: 'MAX_EXTENSIONS_EXCEEDED'; readonly allowed: number };
  readonly forecast_funds: {
    readonly status: 'FORECAST';
    readonly nowMs: number;
    readonly scope: string;
    readonly remaining: string;
    readonly requested: string;
    readonly shortBy: string;
    readonly enoughAtMs?: number;
    readonly unknown: string;
    readonly window?: string;
    readonly holds: readonly { readonly amount: string; readonly deadlineMs: number }[];
  };
  readonly get_reservation:
    | {
        readonly status: 'FOUND';
        readonly defect?: string;
        readonly quarantined?: string;
        readonly record: ReadonlyMap<string, string>;
      }
    | { readonly status: 'NOT_FOUND'; readonly defect?: string }
    | { readonly status: 'FORBIDDEN' }
    | {
        readonly status: 'RESERVATION_EXPIRED';
        readonly onAccess?: 'now';
        readonly tenant?: string;
        readonly deadlineMs?: number;
        readonly nowMs?: number;
      };
  readonly leave_waiters: { readonly status: 'LEFT' };
  readonly list_holds: {
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly examined: number;
    readonly holds: readonly {
      readonly reservationId: string;
      readonly amount: string;
      readonly expiresAtMs: number;
      readonly deadlineMs: number;
    }[];
  };
  readonly list_reservations: {
    readonly nowMs: number;
    readonly walkedMs?: string;
    readonly walkedId?: string;
    readonly outcomes: readonly {
      readonly word: string;
      readonly detail?: string;
      readonly secondDetail?: string;
    }[];
    readonly unreadable: readonly { readonly reservationId: string; readonly reason: string }[];
    readonly rows: readonly {
      readonly id: string;
      readonly st?: string;
      readonly tn?: string;
      readonly tv?: string;
      readonly ws?: string;
      readonly ap?: string;
      readonly wf?: string;
      readonly ag?: string;
      readonly ts?: string;
      readonly dm?: string;
      readonly ak?: string;
      readonly an?: string;
      readonly at?: string;
      readonly ik?: string;
      readonly un?: string;
      readonly am?: string;
      readonly ca?: string;
      readonly ex?: string;
      readonly fa?: string;
      readonly ch?: string;
    }[];
  };
  readonly release:
    | {
        readonly status: 'RELEASED';
        readonly answer: 'fresh' | 'replay';
        readonly released: string;
        readonly unit: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'NOT_FOUND'; readonly defect?: string }
    | { readonly status: 'FORBIDDEN' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'RESERVATION_FINALIZED'; readonly state: string }
    | {
        readonly status: 'RESERVATION_EXPIRED';
        readonly onAccess?: 'now';
        readonly tenant?: string;
        readonly deadlineMs?: number;
        readonly nowMs?: number;
      }
    | {
        readonly status: 'QUARANTINED';
        readonly reason: string;
        readonly tenant?: string;
        readonly again?: 'again';
      };
  readonly renew_waiters: { readonly status: 'RENEWED'; readonly places: readonly string[] };
  readonly reservation_scope:
    | { readonly status: 'SCOPE'; readonly scopePath: string }
    | { readonly status: 'UNKNOWN' }
    | { readonly status: 'NOT_FOUND' };
  readonly reserve:
    | {
        readonly status: 'ALLOW';
        readonly answer: 'fresh' | 'replay';
        readonly reservationId: string;
        readonly expiresAtMs: number;
        readonly remainingTtlMs: number;
        readonly overagePolicy: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | {
        readonly status: 'ALLOW_WITH_CAPS';
        readonly answer: 'fresh' | 'replay';
        readonly reservationId: string;
        readonly expiresAtMs: number;
        readonly remainingTtlMs: number;
        readonly overagePolicy: string;
        readonly caps: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | {
        readonly status: 'ALLOW_DRY_RUN';
        readonly answer: 'fresh' | 'observed' | 'replay';
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | {
        readonly status: 'DRY_RUN_WITH_CAPS';
        readonly answer: 'fresh' | 'observed' | 'replay';
        readonly caps: string;
        readonly balances: readonly { readonly scope: string; readonly balance: Balance }[];
      }
    | {
        readonly status: 'DENY';
        readonly answer: 'fresh' | 'observed' | 'replay';
        readonly reason: string;
        readonly scope?: string;
        readonly remaining?: string;
        readonly policyId?: string;
        readonly window?: string;
        readonly windowKey?: string;
        readonly used?: string;
        readonly limit?: string;
        readonly riskClass?: string;
      }
    | { readonly status: 'IDEMPOTENCY_MISMATCH' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'TENANT_SUSPENDED' }
    | { readonly status: 'INVALID_POLICY'; readonly overagePolicy: string }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'UNIT_MISMATCH'; readonly scope: string; readonly units: readonly string[] }
    | { readonly status: 'BUDGET_FROZEN'; readonly scope: string; readonly remaining: string }
    | { readonly status: 'BUDGET_CLOSED'; readonly scope: string; readonly remaining: string }
    | { readonly status: 'OVERDRAFT_LIMIT_EXCEEDED'; readonly scope: string; readonly remaining: string }
    | { readonly status: 'DEBT_OUTSTANDING'; readonly scope: string; readonly remaining: string }
    | {
        readonly status: 'BUDGET_EXCEEDED';
        readonly scope: string;
        readonly remaining: string;
        readonly window?: string;
      }
    | { readonly status: 'INT64_OVERFLOW'; readonly scope: string }
    | { readonly status: 'ACTION_KIND_DENIED'; readonly scope: string; readonly policyId: string }
    | { readonly status: 'ACTION_KIND_NOT_ALLOWED'; readonly scope: string; readonly policyId: string }
    | {
        readonly status: 'ACTION_QUOTA_EXCEEDED';
        readonly scope: string;
        readonly policyId: string;
        readonly window: string;
        readonly windowKey: string;
        readonly used: string;
        readonly limit: string;
        readonly riskClass: string;
      }
    | { readonly status: 'MISSING_RUN_ID' }
    | { readonly status: 'UNDECLARED_KIND' }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      }
    | {
        readonly status: 'RATE_LIMITED';
        readonly limit: string;
        readonly allowed: number;
        readonly retryMs: number;
      }
    | { readonly status: 'WAITING'; readonly number: string; readonly scope: string }
    | {
        readonly status: 'RECLAIMED';
        readonly nowMs: number;
        readonly outcomes: readonly {
          readonly word: string;
          readonly detail?: string;
          readonly secondDetail?: string;
        }[];
      };
  readonly census: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextKind?: string;
    readonly nextAfter?: string;
    readonly examined: number;
    readonly counts: ReadonlyMap<string, string>;
    readonly held: readonly { readonly unit: string; readonly amount: string }[];
    readonly budgets: readonly {
      readonly scope: string;
      readonly unit: string;
      readonly over: boolean;
      readonly allocated: string;
      readonly remaining: string;
      readonly debt: string;
      readonly overdraftLimit: string;
    }[];
    readonly webhooks: readonly {
      readonly subscriptionId: string;
      readonly url: string;
      readonly failures: number;
      readonly failedAtMs?: string;
    }[];
    readonly quotas: readonly {
      readonly scope: string;
      readonly actionKind: string;
      readonly window: string;
      readonly used: number;
      readonly limit: number;
    }[];
  };
  readonly count_events: {
    readonly nextStart?: string;
    readonly newest?: string;
    readonly examined: number;
    readonly counts: readonly {
      readonly slot: number;
      readonly type: string;
      readonly reason?: string;
      readonly events: number;
    }[];
    readonly recent: readonly { readonly entryId: string; readonly type: string }[];
  };
  readonly probe: { readonly denied: readonly string[] };
  readonly burn_rate_tenants: {
    readonly next?: string;
    readonly tenants: readonly { readonly tenant: string; readonly hasWebhooks: boolean }[];
  };
  readonly check_auth_rate: {
    readonly status: 'CHECKED';
    readonly emitted: readonly { readonly threshold: string; readonly windowS: string }[];
  };
  readonly check_burn_rates:
    | { readonly status: 'RESTS' }
    | { readonly status: 'CHECKED'; readonly next?: string; readonly emitted: number };
  readonly check_latency:
    { readonly status: 'QUIET' } | { readonly status: 'EMITTED'; readonly p99Ms: number };
  readonly check_rates: {
    readonly status: 'CHECKED';
    readonly emitted: readonly {
      readonly metric: string;
      readonly threshold: string;
      readonly windowS: string;
    }[];
  };
  readonly count_rates: {
    readonly more: boolean;
    readonly counted: number;
    readonly tenants: readonly { readonly tenant: string }[];
  };
  readonly bulk_webhook:
    | { readonly status: 'SUCCEEDED' }
    | { readonly status: 'SKIPPED'; readonly reason: 'ALREADY_DELETED' | 'ALREADY_IN_TARGET_STATE' }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'INVALID_TRANSITION'; readonly currentStatus: string }
    | { readonly status: 'NO_SELECTOR' }
    | { readonly status: 'ADMIN_ONLY'; readonly selector: string }
    | { readonly status: 'TOO_MANY_MARKS'; readonly limit: number };
  readonly create_webhook:
    | { readonly status: 'CREATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'TENANT_NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'NO_SELECTOR' }
    | { readonly status: 'ADMIN_ONLY'; readonly selector: string }
    | { readonly status: 'TOO_MANY'; readonly limit: number }
    | { readonly status: 'TOO_MANY_MARKS'; readonly limit: number }
    | {
        readonly status: 'LIMIT_EXCEEDED';
        readonly limit: string;
        readonly allowed: number;
        readonly used: number;
      };
  readonly delete_webhook:
    { readonly status: 'DELETED' } | { readonly status: 'NOT_FOUND' } | { readonly status: 'TENANT_CLOSED' };
  readonly dispatch_page:
    | {
        readonly status: 'HELD';
        readonly nowMs: number;
        readonly lease: 'renewed' | 'taken' | 'none';
        readonly lag?: number;
        readonly oldestMs?: number;
        readonly queues?: number;
        readonly retrying?: number;
        readonly toRecover?: number;
        readonly lastRead?: string;
        readonly more: boolean;
        readonly events: readonly { readonly entryId: string; readonly event: ReadonlyMap<string, string> }[];
      }
    | { readonly status: 'OTHER'; readonly nowMs: number; readonly lapsesInMs: number }
    | { readonly status: 'FREE'; readonly nowMs: number };
  readonly due_retries:
    | {
        readonly status: 'DUE';
        readonly nowMs: number;
        readonly nextDueMs?: number;
        readonly due: readonly { readonly ref: string; readonly dueMs: number }[];
      }
    | { readonly status: 'NOT_HELD' };
  readonly find_webhook:
    | { readonly status: 'UNCHANGED' }
    | { readonly status: 'NOT_FOUND'; readonly revision: string }
    | {
        readonly status: 'FOUND';
        readonly revision: string;
        readonly nowMs: number;
        readonly record: ReadonlyMap<string, string>;
      };
  readonly finish_replay: { readonly status: 'FINISHED' };
  readonly list_deliveries: {
    readonly nextMs?: number;
    readonly nextRef?: string;
    readonly examined: number;
    readonly deliveries: readonly {
      readonly ref: string;
      readonly createdMs: number;
      readonly record: ReadonlyMap<string, string>;
    }[];
  };
  readonly list_webhooks: {
    readonly nowMs: number;
    readonly nextTenant?: string;
    readonly nextMember?: string;
    readonly records: readonly { readonly record: ReadonlyMap<string, string> }[];
  };
  readonly plan_retry:
    | { readonly status: 'PLANNED'; readonly nowMs: number }
    | { readonly status: 'ENDED'; readonly nowMs: number };
  readonly queue_deliveries:
    | {
        readonly status: 'QUEUED';
        readonly nowMs: number;
        readonly made?: string;
        readonly forgotten: number;
      }
    | { readonly status: 'NOT_HELD' };
  readonly read_deliveries: {
    readonly status: 'READ';
    readonly nowMs: number;
    readonly deliveries: readonly {
      readonly ref: string;
      readonly status?: string;
      readonly attempts?: number;
      readonly createdMs?: number;
      readonly nextRetryMs?: number;
      readonly event: ReadonlyMap<string, string>;
    }[];
  };
  readonly record_delivery_outcome:
    | { readonly status: 'RECORDED'; readonly failures: number }
    | { readonly status: 'COUNTED_BEFORE' }
    | { readonly status: 'DISABLED'; readonly owner: string }
    | { readonly status: 'GONE' };
  readonly replay_events: {
    readonly status: 'QUEUED';
    readonly forgotten: number;
    readonly taken: number;
    readonly deliveries: readonly { readonly ref: string; readonly tenant: string }[];
  };
  readonly set_webhook_security: { readonly status: 'SET' };
  readonly settle_delivery:
    | {
        readonly status: 'SETTLED';
        readonly nowMs: number;
        readonly attempts: number;
        readonly leftInQueue: number;
      }
    | {
        readonly status: 'ENDED';
        readonly nowMs: number;
        readonly finalStatus: string;
        readonly leftInQueue: number;
      }
    | { readonly status: 'GONE'; readonly nowMs: number; readonly leftInQueue: number };
  readonly skip_events:
    | {
        readonly status: 'UP_TO';
        readonly nowMs: number;
        readonly entryId: string;
        readonly entriesAdded: string;
      }
    | { readonly status: 'SKIPPED'; readonly nowMs: number }
    | { readonly status: 'WATCHED'; readonly nowMs: number }
    | { readonly status: 'OTHER'; readonly nowMs: number; readonly lapsesInMs: number }
    | { readonly status: 'FREE'; readonly nowMs: number };
  readonly start_replay:
    | { readonly status: 'STARTED' }
    | { readonly status: 'INACTIVE'; readonly currentStatus: string }
    | { readonly status: 'IN_PROGRESS' }
    | {
        readonly status: 'WAITING';
        readonly replayId: string;
        readonly places: readonly { readonly partition: string; readonly ref: string }[];
      }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' };
  readonly update_webhook:
    | { readonly status: 'UPDATED'; readonly record: ReadonlyMap<string, string> }
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'TENANT_CLOSED' }
    | { readonly status: 'STALE' }
    | { readonly status: 'NO_SELECTOR' }
    | { readonly status: 'ADMIN_ONLY'; readonly selector: string }
    | { readonly status: 'TOO_MANY_MARKS'; readonly limit: number };
  readonly webhook_targets: {
    readonly revision: string;
    readonly owners: readonly {
      readonly form: 'ALL' | 'CHANGED';
      readonly next?: string;
      readonly targets: readonly { readonly id: string; readonly record: ReadonlyMap<string, string> }[];
    }[];
  };
  readonly lease_announce: {
    readonly status: 'ALIVE';
    readonly nowMs: number;
    readonly alive: number;
    readonly place: number;
    readonly nextLapseInMs?: number;
  };
  readonly lease_instances: {
    readonly status: 'INSTANCES';
    readonly nowMs: number;
    readonly instances: readonly {
      readonly instance: string;
      readonly lapsesInMs: number;
      readonly report: string;
    }[];
  };
  readonly lease_release: { readonly status: 'RELEASED' } | { readonly status: 'NOT_HELD' };
}
