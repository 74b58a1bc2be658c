#!lua
-- fund_budget: change what one ledger has to spend: CREDIT, DEBIT, RESET, RESET_SPENT or REPAY_DEBT.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   idempotency      string, the record of this request
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   operation
-- ARGV[5]   amount           int64 as a decimal string, not negative
-- ARGV[6]   spent            likewise, or empty; RESET_SPENT alone reads it
-- ARGV[7]   fingerprint      of the canonical payload, or empty when the request names no idempotency key
-- ARGV[8]   idempotency_ttl_ms
-- ARGV[9]   reason           or empty
-- ARGV[10]  metadata         JSON text, or empty; both go into the event and the audit row
-- ARGV[11]  actor            api_key or admin_on_behalf_of
-- ARGV[12]  key_id           the API key that asks, or empty
-- ARGV[13]  request_id
-- ARGV[14]  trace            trace id and flags, then the sender: see lib/append_audit
-- RETURNS   FUNDED answer:fresh|replay previous_allocated new_allocated previous_remaining new_remaining previous_debt
--           new_debt previous_spent new_spent timestamp_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND | TENANT_CLOSED | BUDGET_FROZEN
--           | BUDGET_CLOSED | BUDGET_EXCEEDED | INT64_OVERFLOW
-- BOUND     one budget
-- EMITS     budget.funded, budget.debited, budget.reset, budget.reset_spent, budget.debt_repaid, budget.exhausted,
--           budget.over_limit_entered, budget.over_limit_exited
-- @include  keys: tag_of_key
-- @include  now_ms: now_ms, ms_text
-- @include  int64: i64_add, i64_sub, i64_less, i64_positive
-- @include  idempotency: recall, remember
-- @include  budget: budget_over_limit
-- @include  governed_budget: governed_budget
-- @include  over_limit: debt_over_limit, emit_over_limit
-- @include  append_event: append_event, require_event_log
-- @include  append_audit: append_audit, require_audit_log
--
-- remaining = allocated - spent - reserved - debt holds after each operation:
-- CREDIT pays debt first. A debt that is paid becomes spent: the consumption that was owed is now paid for. So allocated and
--   remaining both grow by the whole amount; what was missing is filled before anything is free to reserve.
-- DEBIT takes the amount from allocated and remaining, which it never makes negative.
-- RESET sets allocated, RESET_SPENT sets allocated and spent; what then remains may be negative.
-- REPAY_DEBT forgives debt, and remaining grows by as much; what the debt does not take is added as funds.
local budget_record, idempotency = KEYS[1], KEYS[2]
local tenant_id, scope, unit, operation, amount, given_spent = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local fingerprint, idempotency_ttl_ms, reason, metadata = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local origin = { actor = ARGV[11], key = ARGV[12], request = ARGV[13], trace = ARGV[14] }

local tag = tag_of_key(budget_record)
local now = ms_text(now_ms())

if fingerprint ~= '' then
  local earlier = recall(idempotency, fingerprint)
  if earlier == 'MISMATCH' then
    return { 'IDEMPOTENCY_MISMATCH' }
  elseif earlier then
    return { 'FUNDED', 'replay', unpack(earlier) }
  end
end

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status ~= 'ACTIVE' then
  return { 'BUDGET_FROZEN' }
end

local allocated, spent, debt = budget.allocated, budget.spent, budget.debt
local repaid = i64_less(debt, amount) and debt or amount
if operation == 'CREDIT' then
  allocated, spent, debt = i64_add(allocated, amount), i64_add(spent, repaid), i64_sub(debt, repaid)
elseif operation == 'DEBIT' then
  if i64_less(budget.remaining, amount) then
    return { 'BUDGET_EXCEEDED' }
  end
  allocated = i64_sub(allocated, amount)
elseif operation == 'RESET' then
  allocated = amount
elseif operation == 'RESET_SPENT' then
  allocated, spent = amount, given_spent == '' and '0' or given_spent
elseif operation == 'REPAY_DEBT' then
  allocated, debt = i64_add(allocated, i64_sub(amount, repaid)), i64_sub(debt, repaid)
else
  error('unknown funding operation ' .. operation)
end
local remaining = allocated and spent and i64_sub(allocated, spent)
remaining = remaining and i64_sub(remaining, budget.reserved)
remaining = remaining and i64_sub(remaining, debt)
if not remaining then
  return { 'INT64_OVERFLOW' }
end

-- A mark left by a capped charge says that the scope ran dry; whatever leaves or brings funds lifts it. Debt above its
-- limit stays over limit.
local was_over = budget_over_limit(budget)
local over = budget.is_over_limit
if debt_over_limit(debt, budget.overdraft_limit) then
  over = '1'
elseif i64_positive(remaining) or i64_less(budget.remaining, remaining) then
  over = '0'
end
require_event_log(tag)
require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', budget.key, 'allocated', allocated, 'remaining', remaining, 'debt', debt, 'spent', spent,
  'is_over_limit', over, 'updated_at', now)
local figures = { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', operation,
  'previous_allocated', budget.allocated, 'new_allocated', allocated, 'previous_remaining', budget.remaining,
  'new_remaining', remaining, 'previous_debt', budget.debt, 'new_debt', debt, 'previous_spent', budget.spent,
  'new_spent', spent, 'previous_reserved', budget.reserved, 'new_reserved', budget.reserved,
  'previous_status', budget.status, 'new_status', budget.status, 'reason', reason, 'metadata', metadata }
if operation == 'CREDIT' then
  append_event(tag, 'budget.funded', tenant_id, scope, origin, figures)
elseif operation == 'DEBIT' then
  append_event(tag, 'budget.debited', tenant_id, scope, origin, figures)
elseif operation == 'RESET' then
  append_event(tag, 'budget.reset', tenant_id, scope, origin, figures)
elseif operation == 'RESET_SPENT' then
  figures[#figures + 1] = 'spent_override_provided'
  figures[#figures + 1] = given_spent == '' and '0' or '1'
  append_event(tag, 'budget.reset_spent', tenant_id, scope, origin, figures)
else
  append_event(tag, 'budget.debt_repaid', tenant_id, scope, origin, figures)
end
emit_over_limit(tag, tenant_id, scope, origin, unit, was_over, over == '1', debt, budget.overdraft_limit)
if i64_positive(budget.remaining) and not i64_positive(remaining) then
  append_event(tag, 'budget.exhausted', tenant_id, scope, origin,
    { 'unit', unit, 'allocated', allocated, 'remaining', remaining, 'spent', spent, 'reserved', budget.reserved })
end
append_audit(tag, 'fundBudget', 200, tenant_id, 'budget', budget.ledger_id, origin,
  { 'scope', scope, 'unit', unit, 'funding', operation, 'amount', amount, 'reason', reason })
local parts = { budget.allocated, allocated, budget.remaining, remaining, budget.debt, debt, budget.spent, spent, now }
if fingerprint ~= '' then
  remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
end
return { 'FUNDED', 'fresh', unpack(parts) }
