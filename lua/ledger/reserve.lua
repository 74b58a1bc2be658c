#!lua
-- reserve: hold an amount against every budgeted scope, or nothing.
--
-- KEYS[1]   reservation      hash, created by this script, of the id to assign
-- KEYS[2]   idempotency      string, the record of this request
-- KEYS[3]   tenant           hash of the owner
-- ARGV[1]   fingerprint      of the canonical payload
-- ARGV[2]   subject          effective tenant, levels and unit, as lua/lib/hold_form.lua stores them
-- ARGV[3]   amount           int64 as a decimal string, not negative
-- ARGV[4]   terms            what the request says beside: overage policy, ttl_ms, dry_run, grace_ms; see
--           lib/reserve_terms
-- ARGV[5]   limits           what the deployment says: see there
-- ARGV[6]   key_id           the requesting API key
-- ARGV[7]   request_id
-- ARGV[8]   trace            trace id and flags
-- ARGV[9]   action_facts     what the governing policy's quotas need: see lib/action_quota
-- ARGV[10]  observe          what the request says of observe mode: see lib/observe
-- ARGV[11]  waiter           the place of a request that waits for funds, as lib/waiters.lua takes it, or empty
-- ARGV[...] further field and value pairs of the record, the action's kind and name first; if the request says what it
--           costs if it expires, that is among them
-- RETURNS   ALLOW answer:fresh|replay reservation_id expires_at_ms remaining_ttl_ms overage_policy balances(scope
--           balance)*
--           | ALLOW_WITH_CAPS answer:fresh|replay reservation_id expires_at_ms remaining_ttl_ms overage_policy caps
--           balances(scope balance)* | ALLOW_DRY_RUN answer:fresh|observed|replay balances(scope balance)*
--           | DRY_RUN_WITH_CAPS answer:fresh|observed|replay caps balances(scope balance)*
--           | DENY answer:fresh|observed|replay reason [scope remaining policy_id window window_key used limit
--           risk_class] | IDEMPOTENCY_MISMATCH | TENANT_CLOSED | TENANT_SUSPENDED | INVALID_POLICY overage_policy
--           | NOT_FOUND | UNIT_MISMATCH scope units* | BUDGET_FROZEN scope remaining | BUDGET_CLOSED scope remaining
--           | OVERDRAFT_LIMIT_EXCEEDED scope remaining | DEBT_OUTSTANDING scope remaining
--           | BUDGET_EXCEEDED scope remaining [window limit] | KEPT_FOR_WAITER scope remaining | INT64_OVERFLOW scope
--           | ACTION_KIND_DENIED scope policy_id | ACTION_KIND_NOT_ALLOWED scope policy_id
--           | ACTION_QUOTA_EXCEEDED scope policy_id window window_key used limit risk_class | MISSING_RUN_ID
--           | UNDECLARED_KIND | LIMIT_EXCEEDED limit allowed:int used:int | RATE_LIMITED limit allowed:int retry_ms:int
--           | OBSERVED_SET | WAITING number scope | UNPLANNED tenant_id template_id
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     scopes of one subject (at most 6) of each call, each with the template that makes its budget with 16
--           credits; 100 due holds, if one reclaims
-- GROUP     16
-- SET       8, which are granted together or not at all: see lib/all_or_none
-- ATTESTED  its outcome can become evidence
-- EMITS     budget.created, custom.credit.granted, reservation.denied, reservation.observed_denied,
--           reservation.observed_allowed, budget.exhausted, budget.threshold_crossed, quota.threshold_approaching;
--           those of the expiry transition
-- @include  admission, all_or_none, births, budget_figures, charge_on_expiry, count_actions, credit_record, denial,
--           emit_denial, event_writer, field, grouped, hold_record, idempotency_record, int64, keys, observe,
--           owned_counts,
--           plain_move, policy_rate, reserve_replay, reserve_terms, run_time, shared_budgets, tenant_state, threshold,
--           time, waiters
--
-- An expired hold never causes a denial. If holds are due in the partition, the script expires some of them and returns
-- their outcomes, instead of refusing the amount or too many live reservations. The caller then runs it again.
local reservation, idempotency, tenant_record = KEYS[1], KEYS[2], KEYS[3]
local fingerprint, subject, amount, terms = ARGV[1], hold_record.requested_subject(ARGV[2]), ARGV[3],
  reserve_terms.terms(ARGV[4])
local limits, key_id, request_id, trace = reserve_terms.limits(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]
local action_facts, asked, first_field = ARGV[9], ARGV[10], 12
local ttl_ms, dry_run = terms.ttl_ms, terms.dry_run
local tenant_id, unit, scopes = subject.tenant, subject.unit, subject.scopes

local tag = keys.tag_of(reservation)
local reservation_id = keys.id_in(reservation)
local now = run_time.now(group)

local set = group.set
local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' or earlier and set and set.is_torn then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  if set then
    set.id = all_or_none.set_of_parts(tag, earlier)
  end
  return reserve_replay.replayed_reserve(tag, scopes, earlier, now)
end

local tenant = grouped.tenant(group, tenant_state.read_tenant, tenant_record)
local observance = observe.observance_of(asked, tenant)
local is_observed = observance == 'OBSERVED'
if set and is_observed then
  return { 'OBSERVED_SET' }
end
dry_run = dry_run or is_observed
local waiter = ARGV[11] ~= '' and not dry_run and waiters.parse(ARGV[11]) or nil
local plan = admission.REQUEST
plan.tag, plan.now, plan.tenant, plan.subject, plan.amount, plan.overage_policy = tag, now, tenant, subject, amount,
  terms.policy
plan.facts, plan.fields, plan.first, plan.limits = action_facts, ARGV, first_field, limits
plan.key_id, plan.request_id, plan.trace, plan.way, plan.waiter = key_id, request_id, trace, 'hold', waiter
plan.is_counted = not set or all_or_none.counts(set, subject, action_facts, ARGV, first_field)
-- What is denied: a dry run gets DENY, which is stored and replayed. A live reserve gets the refusal, which is not
-- stored.
local refusal, ending = admission.admit(plan, group)
if ending then
  return ending
end
local policy, budgets, unborn, counts = plan.policy, plan.budgets, plan.unborn, plan.counts
if refusal then
  local origin = admission.origin_of(plan)
  local place = waiter and waiters.join(tag, tenant_id, unit, budgets, refusal, waiter, now)
  if place then
    return place
  end
  -- The protocol has no event for throttling, but one for everything that is observed.
  if is_observed then
    observe.emit_observed_denial(tag, tenant_id, scopes[#scopes], origin, unit, amount, refusal,
      hold_record.with_levels(subject, ARGV, first_field))
  elseif denial.reason_of(refusal) ~= 'LIMIT_EXCEEDED' then
    emit_denial(tag, tenant_id, scopes[#scopes], origin, unit, amount, refusal,
      hold_record.with_levels(subject, ARGV, first_field), dry_run, observance == 'ENFORCED')
  end
  if not dry_run then
    return refusal
  end
  local parts = denial.denial_parts(refusal, policy, ARGV, first_field, is_observed)
  idempotency_record.remember(idempotency, fingerprint, parts, limits.idempotency_ttl_ms)
  return denial.denial_reply(parts, is_observed and 'observed' or 'fresh')
end

local mask, overage_policy, owned, is_counted = plan.mask, plan.overage_policy, plan.owned, plan.is_counted
local text_bytes, stored_after = plan.text_bytes, plan.stored_after
-- The lease's default and limits: the governing policy's, else the tenant's, else the protocol's.
ttl_ms = ttl_ms or policy and policy.default_ttl_ms or (tenant or tenant_state.DEFAULT_LEASE).default_ttl_ms
if policy and policy.max_ttl_ms then
  ttl_ms = math.min(ttl_ms, policy.max_ttl_ms)
elseif tenant then
  ttl_ms = math.min(ttl_ms, tenant.max_ttl_ms)
end
local max_extensions = policy and policy.max_extensions or (tenant or tenant_state.DEFAULT_LEASE).max_extensions
local expires_at = now + ttl_ms
-- The hold keeps the expiry policy it was made under: later changes of the tenant do not affect it.
local expiry_policy = tenant_state.expiry_letter(tenant)
local charge_percent = policy and policy.charge_percent or tenant and tenant.charge_percent
local default_charge = charge_percent and not denial.has_field(ARGV, first_field, field.charge_on_expiry)
  and charge_on_expiry.default_of(charge_percent, amount)

local held, marks, emits = int64.figure(amount), threshold.marks_of(tenant and tenant.marks, unit), false
local is_plain = not dry_run and type(held) == 'number' and plain_move.moves_plainly(budgets, marks, -held, held, 0)
if not is_plain then
  budgets = shared_budgets.copies_of(budgets)
end
for _, budget in ipairs(is_plain and {} or budgets) do
  local former, debt = budget.remaining_figure, budget.debt_figure
  local remaining, reserved = int64.sub(former, held), int64.add(budget.reserved_figure, held)
  if not remaining or not reserved then
    return { 'INT64_OVERFLOW', budget.scope }
  end
  budget_figures.move_figures(budget, remaining, reserved)
  budget.became_exhausted = budget.remaining == '0' and int64.positive(former)
  budget.crossings = threshold.crossings_of(marks, budget.allocated_figure, former, debt, remaining, debt)
  emits = emits or budget.became_exhausted or budget.crossings
end

if not is_plain then
  budget_figures.require_balanced(budgets)
end
if emits or is_observed then
  event_writer.require_event_log(tag)
end
births.require_births(tag, tenant_id, unborn)
local approaches = count_actions.require_counting(tag, tenant_id, counts)

-- Nothing is refused below this line.
local lives_ms = ttl_ms + terms.grace_ms
if group.rehearses then
  -- What the members behind this one need to know, and an index that would end the script in the middle of its change
  -- if it is damaged. That of deadlines is the first that the second pass writes.
  redis.call('ZCARD', keys.reservation_index(tag, tenant_id))
  births.give_birth(group, tag, unborn)
  for _, budget in ipairs(budgets) do
    if is_plain then
      shared_budgets.keep_plain_move(group, budget, -held, held, 0)
    else
      shared_budgets.keep_copy(group, budget)
    end
  end
  owned_counts.count_live(owned, text_bytes, stored_after)
  if counts then
    count_actions.count(group, policy, counts)
  end
  if is_counted and policy then
    set.rates[policy.id] = (set.rates[policy.id] or 0) + 1
  end
  set.lives_ms = math.max(set.lives_ms, lives_ms)
  return { 'ALLOW', 'rehearsed' }
end
local caps = policy and policy.caps
if dry_run then
  local answer = is_observed and 'observed' or 'fresh'
  local reply, parts = { 'ALLOW_DRY_RUN', answer }, { 'ALLOW_DRY_RUN', mask }
  if caps then
    reply, parts = { 'DRY_RUN_WITH_CAPS', answer, caps }, { 'DRY_RUN_WITH_CAPS', caps, mask }
  end
  for _, budget in ipairs(budgets) do
    local text = budget_figures.balance_text(budget)
    reply[#reply + 1] = budget.scope
    reply[#reply + 1] = text
    parts[#parts + 1] = text
  end
  if is_observed then
    observe.emit_observed_allowed(tag, tenant_id, scopes[#scopes], admission.origin_of(plan), asked, unit, amount, caps,
      hold_record.with_levels(subject, ARGV, first_field), action_facts)
  end
  idempotency_record.remember(idempotency, fingerprint, parts, limits.idempotency_ttl_ms)
  return reply
end

-- The indexes come first: if one is damaged, the call ends here, before a figure has changed. If only the second one
-- is, the entry in the first is an orphan, which the sweeper removes.
grouped.add_to_index(group, hold_record.deadline_index_of(tag, expiry_policy),
  time.ms_text(expires_at + terms.grace_ms), reservation_id)
local made_at = credit_record.made_at(budgets, now)
local made_text = made_at == now and run_time.now_text(group) or time.ms_text(made_at)
grouped.add_to_index(group, keys.reservation_index(tag, tenant_id), made_text, reservation_id)
if unborn then
  births.give_birth(group, tag, unborn, now, request_id, trace)
end
if waiter then
  waiters.leave(tag, tenant_id, unit, waiter)
end
local expires_text = time.ms_text(expires_at)
-- With room for three budgets, because a table that grows is reallocated each time.
local reply = { 'ALLOW', 'fresh', reservation_id, expires_text, ttl_ms == terms.ttl_ms and terms.ttl_text
  or time.ms_text(ttl_ms), overage_policy, nil, nil, nil, nil, nil, nil }
local parts = hold_record.hold_parts(reservation_id, expires_at, overage_policy, mask)
local size, parts_size = 6, 3
if caps then
  reply[1], reply[7], size = 'ALLOW_WITH_CAPS', caps, 7
  parts, parts_size = { 'ALLOW_WITH_CAPS', reservation_id, expires_text, overage_policy, caps, mask }, 6
end
for _, budget in ipairs(budgets) do
  local text, stored
  if is_plain then
    text, stored = shared_budgets.keep_plain_move(group, budget, -held, held, 0)
  else
    text, stored = shared_budgets.keep_copy(group, budget)
  end
  reply[size + 1], reply[size + 2], parts[parts_size + 1] = budget.scope, text, stored
  size, parts_size = size + 2, parts_size + 1
end
redis.call('HSET', reservation, field.state, 'ACTIVE', field.amount, amount, field.expires_at, expires_text,
  field.grace_ms, terms.grace_text, field.created_at, made_text, hold_record.lasting_fields(subject,
  mask, overage_policy, time.ms_text(max_extensions), key_id, ARGV, first_field))
if policy and policy.max_ttl_ms then
  redis.call('HSET', reservation, field.max_ttl_ms, time.ms_text(policy.max_ttl_ms))
end
if expiry_policy then
  redis.call('HSET', reservation, field.expiry_policy, expiry_policy)
end
if default_charge then
  redis.call('HSET', reservation, field.charge_on_expiry, default_charge)
end
owned_counts.count_live(owned, text_bytes, stored_after)
if policy and is_counted then
  policy_rate.count_rate(tag, policy, 'reservations', now)
end
local origin = (emits or approaches) and admission.origin_of(plan)
local run_counters = counts and count_actions.count_actions(group, tag, tenant_id, policy, counts, origin)
if run_counters then
  redis.call('HSET', reservation, field.run_counters, run_counters)
end
for _, budget in ipairs(emits and budgets or {}) do
  if budget.became_exhausted then
    event_writer.append_event(tag, 'budget.exhausted', tenant_id, budget.scope, origin,
      { 'unit', unit, 'reservation_id', reservation_id, 'allocated', budget.allocated, 'remaining', budget.remaining,
        'spent', budget.spent, 'reserved', budget.reserved })
  end
  if budget.crossings then
    threshold.emit_crossings(tag, tenant_id, origin, unit, budget, budget.crossings)
  end
end
-- The replay must last as long as the reservation can.
if set then
  parts[parts_size + 1], lives_ms = all_or_none.last_part(set, ARGV, first_field), set.lives_ms
end
idempotency_record.remember(idempotency, fingerprint, parts,
  lives_ms > tonumber(limits.idempotency_ttl_ms) and time.ms_text(lives_ms) or limits.idempotency_ttl_ms)
return reply
