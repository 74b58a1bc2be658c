#!lua
-- direct_debit: charge an amount to every budgeted scope without a hold, or to none.
--
-- KEYS[1]   idempotency      string, the record of this request
-- KEYS[2]   tenant           hash of the owner
-- ARGV[1]   tenant_id        effective tenant
-- ARGV[2]   event_id         the id to assign, which debit_record completes
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   unit
-- ARGV[5]   actual           int64 as a decimal string, not negative
-- ARGV[6]   overage_policy   as requested, or empty for that of the governing policy, the budget, the tenant or the
--           protocol
-- ARGV[7]   idempotency_ttl_ms
-- ARGV[8]   retention_ms     how long the records of holds that this run expires are kept
-- ARGV[9]   key_id           the requesting API key
-- ARGV[10]  request_id
-- ARGV[11]  trace            trace id and flags
-- ARGV[12]  max_budgets      the deployment's limit on a tenant's budgets, 0 for none
-- ARGV[13]  scope_count      number of derived scopes
-- ARGV[...] the derived scopes, root first; then field and value pairs, as for reserve: subject, action, metadata
-- RETURNS   APPLIED answer:fresh|replay event_id charged overage_policy debt balances(scope balance)*
--           | IDEMPOTENCY_MISMATCH
--           | TENANT_CLOSED | TENANT_SUSPENDED | INVALID_POLICY overage_policy | NOT_FOUND | UNIT_MISMATCH scope units*
--           | BUDGET_FROZEN scope remaining | BUDGET_CLOSED scope remaining
--           | BUDGET_EXCEEDED scope remaining [window limit] | LIMIT_EXCEEDED limit allowed:int used:int
--           | OVERDRAFT_LIMIT_EXCEEDED scope | INT64_OVERFLOW scope | UNPLANNED tenant_id template_id
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     scopes of one subject (at most 6) of each call, each with the template that makes its budget with 16
--           credits; 100 due holds, if one reclaims
-- GROUP     16
-- EMITS     budget.created, custom.credit.granted, custom.direct_debit.applied, custom.direct_debit.denied,
--           budget.debt_incurred, budget.over_limit_entered, budget.exhausted, budget.threshold_crossed; those of the
--           expiry transition
-- @include  admission, births, charging, credit_record, debit_record, denial, event_writer, field, grouped,
--           idempotency_record, int64, journal, keys, plain_move, run_time, shared_budgets, tenant_state, threshold
--
-- The action has already happened, so neither debt nor an over-limit mark refuses the debit: only its own overage
-- policy does.
-- An expired hold never refuses or caps a debit, nor drives it into debt: if the amount does not remain, due holds are
-- reclaimed first, and the caller runs the script again. The event in the log is the debit's only record, also of a
-- refused one.
local idempotency, tenant_record = KEYS[1], KEYS[2]
local tenant_id, event_id, fingerprint, unit, actual = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local idempotency_ttl_ms, scopes = ARGV[7], { unpack(ARGV, 14, 13 + tonumber(ARGV[13])) }
local first_field = 14 + #scopes

local tag = keys.tag_of(idempotency)
local now = run_time.now(group)

event_id = debit_record.with_instant(event_id, now)

local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  return admission.with_balances({ 'APPLIED', 'replay', earlier[1], earlier[2], earlier[3], earlier[4] }, scopes,
    earlier, 5)
end

local tenant = grouped.tenant(group, tenant_state.read_tenant, tenant_record)
local plan = admission.REQUEST
plan.tag, plan.now, plan.tenant, plan.way = tag, now, tenant, 'debit'
plan.subject, plan.amount, plan.overage_policy = { tenant = tenant_id, unit = unit, scopes = scopes }, actual, ARGV[6]
plan.facts, plan.is_counted, plan.fields, plan.first, plan.waiter = nil, false, ARGV, first_field, nil
plan.limits = { max_budgets = ARGV[12], retention_ms = ARGV[8] }
plan.key_id, plan.request_id, plan.trace = ARGV[9], ARGV[10], ARGV[11]
local origin = admission.origin_of(plan)

-- A debit reserves nothing, so its denial is another event than a reserve's, and no part of the tenant's denial rate.
local function refused(refusal)
  if denial.is_denial(refusal) then
    local scope, cause, figures =
      denial.denial_event(tenant_id, scopes[#scopes], origin, unit, 'requested_amount', actual, refusal,
      { unpack(ARGV, first_field) })
    event_writer.append_event(tag, 'custom.direct_debit.denied', tenant_id, scope, cause, figures)
  end
  return refusal
end

local refusal, ending, short = admission.admit(plan, group)
if ending then
  return ending
elseif refusal then
  return refused(refusal)
end
local budgets, mask, unborn, overage_policy = plan.budgets, plan.mask, plan.unborn, plan.overage_policy
local marks, cost = threshold.marks_of(tenant and tenant.marks, unit), int64.figure(actual)
local is_plain = not short and type(cost) == 'number' and plain_move.moves_plainly(budgets, marks, -cost, 0, cost)
local charge, over
if is_plain then
  charge = { charged = actual, debt = '0' }
else
  -- With nothing held, the whole amount is overage, which REJECT would refuse. If it remains everywhere, any policy
  -- allows it.
  budgets = shared_budgets.copies_of(budgets)
  charge, over = charging.charge_of(budgets, '0', actual, short and overage_policy or 'ALLOW_IF_AVAILABLE', marks,
    math.huge)
end
if not charge then
  return refused(over)
end
births.require_births(tag, tenant_id, unborn)
event_writer.require_event_log(tag)
journal.require_journal(tag, group)
if not is_plain then
  redis.call('ZCARD', keys.credit_index(tag))
end

-- Nothing is refused below this line.
local parts = { event_id, charge.charged, overage_policy, charge.debt, mask }
births.give_birth(group, tag, unborn, now, origin.request, origin.trace)
local reply = { 'APPLIED', 'fresh', event_id, charge.charged, overage_policy, charge.debt }
for _, budget in ipairs(budgets) do
  local text, stored
  if is_plain then
    text, stored = shared_budgets.keep_plain_move(group, budget, -cost, 0, cost)
  else
    text, stored = shared_budgets.keep_copy(group, budget)
  end
  reply[#reply + 1] = budget.scope
  reply[#reply + 1] = text
  parts[#parts + 1] = stored
end
if not is_plain then
  charging.emit_charge(tag, tenant_id, budgets, origin, unit, '', overage_policy, now)
end
local entry = event_writer.append_event(tag, 'custom.direct_debit.applied', tenant_id, scopes[#scopes], origin,
  { 'event_id', event_id, 'unit', unit, 'actual_amount', actual, 'charged', charge.charged, 'overage_policy',
  overage_policy,
    'debt_incurred', charge.debt, field.credits, is_plain and '' or credit_record.paid_text(budgets), field.scope_mask,
    mask, unpack(ARGV, first_field) })
journal.append_debit(tag, entry, charge, actual, keys.key_of_debit(idempotency))
idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
return reply
