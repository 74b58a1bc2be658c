#!lua flags=allow-oom
-- plan_periods: give a budget with a recurrence the boundaries of its next periods.
-- allow-oom: without boundaries, a budget would stay in its last period.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   scope            canonical
-- ARGV[2]   unit
-- ARGV[3]   recurrence       the rule that the instants follow from
-- ARGV[...] instants of the rule in ms, ascending
-- RETURNS   PLANNED | SKIP
-- BOUND     one budget, 100 instants
-- EMITS     nothing
-- @include  keys, period_starts
--
-- The instants that are not after the current period are left out. SKIP: the budget has another rule by now, or is
-- closed or damaged.
-- The boundaries of another rule, and the time at which they are planned again, are left as they are.
local budget_record = KEYS[1]
local scope, unit, recurrence, first_instant = ARGV[1], ARGV[2], ARGV[3], 4

local tag = keys.tag_of(budget_record)
local record = redis.call('HMGET', budget_record, 'recurrence', 'period_end', 'status')
local ends = tonumber(record[2] or '')
local following = ends and period_starts.boundaries_after(ARGV, first_instant, ends) or {}
local period_index, period_plans = keys.period_index(tag), keys.period_plans(tag)
redis.call('ZCARD', period_index)

-- Nothing is refused below this line.
if record[1] and record[1] ~= recurrence and record[3] ~= 'CLOSED' then
  return { 'SKIP' }
elseif record[1] ~= recurrence or record[3] == 'CLOSED' or #following == 0 then
  redis.call('ZREM', period_plans, scope .. ' ' .. unit)
  return { 'SKIP' }
end
period_starts.set_boundaries(tag, budget_record, unit, scope, following)
redis.call('ZADD', period_index, record[2], scope .. ' ' .. unit)
return { 'PLANNED' }
