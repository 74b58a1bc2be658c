#!lua
-- set_recurrence: let the periods of a budget follow the calendar, or end its periods.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   recurrence       the rule, in the form of src/governance/budgets/recurrence.ts, or empty to end all periods
-- ARGV[5]   rollover_policy  or empty for no change
-- ARGV[6-9] origin           actor is admin
-- ARGV[...] instants of the rule in ms, ascending, among them those after now
-- RETURNS   CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
-- BOUND     one budget, 100 instants
-- EMITS     budget.updated; those of a rollover
-- @include  audit_log, event_writer, extras, governed_budget, keys, period_starts, time
--
-- The figures do not change. The current period goes on until the next instant of the rule; without one, it begins now.
-- Ending the periods of a budget that has none changes nothing.
local budget_record = KEYS[1]
local tenant_id, scope, unit, recurrence, rollover_policy = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }
local first_instant = 10

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
local now, period_index, period_plans = budget.now, keys.period_index(tag), keys.period_plans(tag)
local following = period_starts.boundaries_after(ARGV, first_instant, now)
if recurrence ~= '' and #following < 2 then
  error('there are no boundaries after now for ' .. recurrence)
end
if recurrence .. rollover_policy == '' and not budget.period_end then
  return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
end
redis.call('ZCARD', period_index)
redis.call('ZCARD', period_plans)
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local starts, ends, member = '', '', scope .. ' ' .. unit
if recurrence == '' then
  redis.call('ZREM', period_index, member)
  redis.call('ZREM', period_plans, member)
  redis.call('HDEL', budget_record, 'period_start', 'period_end', 'period_allocated', 'recurrence', 'boundaries')
  extras.mark_extras(budget_record)
else
  starts, ends = redis.call('HGET', budget_record, 'period_start') or time.ms_text(now), table.remove(following, 1)
  period_starts.set_period(tag, budget_record, unit, scope, { starts = starts, ends = ends },
    not budget.period_end and budget.base_allocated)
  redis.call('HSET', budget_record, 'recurrence', recurrence)
  period_starts.set_boundaries(tag, budget_record, unit, scope, following)
end
if rollover_policy ~= '' then
  redis.call('HSET', budget_record, 'rollover_policy', rollover_policy)
end
redis.call('HSET', budget_record, 'updated_at', time.ms_text(now))
local fields = 'recurrence,period_start,period_end' .. (rollover_policy ~= '' and ',rollover_policy' or '')
event_writer.append_event(tag, 'budget.updated', tenant_id, scope, origin,
  { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'UPDATE', 'previous_status', budget.status, 'new_status',
  budget.status,
    'new_period_start', starts, 'new_period_end', ends, 'changed_fields', fields })
audit_log.append_audit(tag, recurrence == '' and 'removeBudgetRecurrence' or 'setBudgetRecurrence', 200, tenant_id,
  'budget', budget.ledger_id, origin, { 'scope', scope, 'unit', unit, 'recurrence', recurrence, 'rollover_policy',
  rollover_policy, 'period_end', ends })
return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
