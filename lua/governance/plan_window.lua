#!lua flags=allow-oom
-- plan_window: give a window of a budget the ends of the windows to come.
-- allow-oom: without them, the window would never turn.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   scope            canonical
-- ARGV[2]   unit
-- ARGV[3]   window           its name
-- ARGV[4]   recurrence       the rule that the instants follow from
-- ARGV[...] instants of the rule in ms, ascending
-- RETURNS   PLANNED | SKIP
-- BOUND     one budget, 100 instants
-- EMITS     nothing
-- @include  keys, period_starts, window_record, window_turn
--
-- As plan_periods does for the periods of a budget. SKIP: the window has another rule by now or is gone, or the budget
-- is closed or damaged.
local budget_record = KEYS[1]
local scope, unit, name, recurrence, first_instant = ARGV[1], ARGV[2], ARGV[3], ARGV[4], 5

local tag = keys.tag_of(budget_record)
local record = redis.call('HMGET', budget_record, 'windows', 'window_rules', 'window_plans', 'status')
local readable, windows = pcall(window_record.parse_windows, budget_record, record[1] or '')
local sound, plans = pcall(window_record.parse_plans, budget_record, record[3], readable and windows or {})
local rules, index, following = window_record.rules_of(record[2]), nil, {}
for i, window in ipairs(readable and sound and windows or {}) do
  if window.name == name then
    index, following = i, period_starts.boundaries_after(ARGV, first_instant, window.ends)
  end
end

-- Nothing is refused below this line.
if index and rules[index] and rules[index] ~= recurrence and record[4] ~= 'CLOSED' then
  return { 'SKIP' }
elseif not index or not rules[index] or record[4] == 'CLOSED' or #following == 0 then
  redis.call('ZREM', keys.period_plans(tag), scope .. ' ' .. unit .. ' ' .. name)
  return { 'SKIP' }
end
plans[index] = following
redis.call('HSET', budget_record, 'window_plans', window_record.plans_text(plans))
window_turn.plan_windows_at(tag, unit, scope, name, following)
return { 'PLANNED' }
