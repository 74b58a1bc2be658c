#!lua
-- update_budget: change a ledger's overdraft limit, policies, period or metadata, even if it is frozen.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   overdraft_limit  int64 as a decimal string, not negative, or empty for no change
-- ARGV[5-8] origin           actor is admin
-- ARGV[9]   period_start     ms, or empty for no change, or now for a first period
-- ARGV[10]  period_end       ms, or empty for no change
-- ARGV[11]  retention_ms     how long the records of holds that this run expires are kept
-- ARGV[...] field and value pairs of the record: commit_overage_policy, rollover_policy, metadata
-- RETURNS   CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
--           | INVALID_PERIOD reason:ENDED|NOT_BEGUN|TOO_SHORT|NO_END|RECURRING
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     one budget; 100 due holds, if it reclaims
-- EMITS     budget.updated, budget.over_limit_entered, budget.over_limit_exited; those of a rollover; those of the
--           expiry transition
-- @include  audit_log, budget_figures, event_writer, expiry, governed_budget, int64, keys, over_limit, period_starts,
--           time, waking
--
-- A request without changes writes nothing and emits nothing.
local budget_record = KEYS[1]
local tenant_id, scope, unit, overdraft_limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8] }
local starts, ends, retention_ms, first_field = ARGV[9], ARGV[10], ARGV[11], 12

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
local now, period, reason = budget.now, nil, nil
if starts .. ends ~= '' then
  local stored = redis.call('HMGET', budget_record, 'period_start', 'period_end', 'recurrence')
  period, reason = period_starts.new_period(tag, starts ~= '' and starts or stored[1] or '', ends ~= '' and ends
    or stored[2] or '', now)
  reason = stored[3] and 'RECURRING' or reason or not period and 'NO_END' or nil
end
if reason then
  return { 'INVALID_PERIOD', reason }
end
local was_over = budget_figures.budget_over_limit(budget)
local over = was_over
if overdraft_limit ~= '' then
  -- For a scope that was over its old limit, only the new limit counts. A flag set by a capped charge means that the
  -- scope ran out of funds: only funds clear it, no limit does.
  local by_debt = budget_figures.debt_over_limit(budget.debt, budget.overdraft_limit)
  local is_capped = budget.is_over_limit == '1' and not by_debt and not int64.positive(budget.remaining)
  local first = is_capped and budget.reserved ~= '0' and expiry.reclaimed(nil, tag, now, retention_ms, origin)
  if first then
    return first
  end
  over = budget_figures.debt_over_limit(budget.debt, overdraft_limit) or is_capped
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local changes, changed = {}, {}
for i = first_field, #ARGV, 2 do
  changes[#changes + 1], changes[#changes + 2] = ARGV[i], ARGV[i + 1]
  changed[#changed + 1] = ARGV[i]
end
if overdraft_limit ~= '' then
  changes[#changes + 1], changes[#changes + 2] = 'overdraft_limit', overdraft_limit
  changed[#changed + 1] = 'overdraft_limit'
  changes[#changes + 1], changes[#changes + 2] = 'is_over_limit', over and '1' or '0'
end
if period then
  period_starts.set_period(tag, budget_record, unit, scope, period, not budget.period_end and budget.base_allocated)
  changed[#changed + 1], changed[#changed + 2] = 'period_start', 'period_end'
end
if #changed > 0 then
  redis.call('HSET', budget_record, 'updated_at', time.ms_text(now), unpack(changes))
  if budget.waiting then
    waking.wake_waiters(budget_record)
  end
  local fields = table.concat(changed, ',')
  event_writer.append_event(tag, 'budget.updated', tenant_id, scope, origin,
    { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'UPDATE', 'previous_status', budget.status,
      'new_status', budget.status, 'new_period_start', period and period.starts or '', 'new_period_end', period
      and period.ends or '', 'changed_fields', fields })
  over_limit.emit_over_limit(tag, tenant_id, scope, origin, unit, was_over, over, budget.debt,
    overdraft_limit == '' and budget.overdraft_limit or overdraft_limit)
  audit_log.append_audit(tag, 'updateBudget', 200, tenant_id, 'budget', budget.ledger_id, origin,
    { 'scope', scope, 'unit', unit, 'changed_fields', fields, 'overdraft_limit', overdraft_limit })
end
return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
