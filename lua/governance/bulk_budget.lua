#!lua
-- bulk_budget: apply a bulk action to one budget, once: CREDIT, DEBIT, RESET, RESET_SPENT or REPAY_DEBT, as fund_budget
-- does.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit             of the budget and of the amount
-- ARGV[4]   operation
-- ARGV[5]   amount           int64 as a decimal string, not negative
-- ARGV[6]   spent            same, or empty; only for RESET_SPENT
-- ARGV[7]   reason           or empty
-- ARGV[8]   keep_ms          how long the action remembers that it changed this budget
-- ARGV[9]   correlation_id   of the whole action
-- ARGV[10-13] origin           actor is admin_on_behalf_of; request_id is that of the action's first attempt, after
--           which the set of changed rows is named
-- ARGV[14]  retention_ms     how long the records of holds that this run expires are kept
-- RETURNS   SUCCEEDED | SKIPPED reason:ALREADY_IN_TARGET_STATE | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
--           | BUDGET_FROZEN
--           | BUDGET_EXCEEDED | INT64_OVERFLOW | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     one budget; 100 due holds, if it reclaims
-- EMITS     budget.funded, budget.debited, budget.reset, budget.reset_spent, budget.debt_repaid, budget.exhausted,
--           budget.over_limit_entered, budget.over_limit_exited, budget.threshold_crossed; those of a rollover;
--           those of the expiry transition
-- @include  event_writer, funding, governed_budget, int64, keys, time
--
-- Unlike fund_budget, it skips REPAY_DEBT on a budget without debt, and an operation that would not change any figure.
local budget_record = KEYS[1]
local tenant_id, scope, unit, operation, amount, given_spent, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5],
  ARGV[6], ARGV[7]
local keep_ms, retention_ms = ARGV[8], ARGV[14]
local origin = { actor = ARGV[10], key = ARGV[11], request = ARGV[12], trace = ARGV[13], correlation = ARGV[9] }

local tag = keys.tag_of(budget_record)
local changed_rows = keys.bulk_rows(tag, origin.request)
local row = scope .. ' ' .. unit

if redis.call('SISMEMBER', changed_rows, row) == 1 then
  return { 'SUCCEEDED' }
end
local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status ~= 'ACTIVE' then
  return { 'BUDGET_FROZEN' }
end
if operation == 'REPAY_DEBT' and not int64.positive(budget.debt) then
  return { 'SKIPPED', 'ALREADY_IN_TARGET_STATE' }
end
local planned, refused = funding.planned_funding(budget, operation, amount, given_spent)
local first = funding.reclaimed_before(tag, budget, planned, retention_ms, origin)
if first or not planned then
  return first or refused
end
if not funding.funding_changes(budget, planned, operation) then
  return { 'SKIPPED', 'ALREADY_IN_TARGET_STATE' }
end
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
redis.call('SADD', changed_rows, row)
redis.call('PEXPIRE', changed_rows, keep_ms)
funding.apply_funding(tag, budget, planned,
  { tenant_id = tenant_id, scope = scope, unit = unit, operation = operation, spent = given_spent, reason = reason,
  metadata = '' }, time.ms_text(budget.now), origin)
return { 'SUCCEEDED' }
