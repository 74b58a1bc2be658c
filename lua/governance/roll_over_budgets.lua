#!lua flags=allow-oom
-- roll_over_budgets: roll over budgets of a partition that nobody has used since their period ended.
-- allow-oom: a new period frees budget, and must begin when Redis is full.
--
-- KEYS[1]   period_index     sorted set of 'scope unit', score = the end of its period in ms
-- KEYS[2]   rolled           string, rollovers since the last run of this script
-- KEYS[3]   period_plans     sorted set of 'scope unit', 'scope unit window' or 'template tenant id', score = when its
--           boundaries must be planned again, in ms
-- KEYS[4]   turned           string, windows that have turned since the last run of this script
-- KEYS[5]   born             string, budgets that templates have made since the last run of this script
-- KEYS[6]   credit_index     sorted set of 'scope unit', score = the next moment of any credit in ms
-- KEYS[7]   credits_turned   string, starts, notices and ends of credits since the last run of this script
-- ARGV[1]   limit            budgets per run, at least 1
-- RETURNS   now_ms rolled:int turned:int born:int credits_turned:int late_ms? next_ms? more:flag damaged_count
--           damaged(scope unit)* unplanned(scope unit window? recurrence? ends?)*
-- BOUND     limit budgets, eight rollovers each; limit budgets with all their credits; limit plans
-- EMITS     those of a rollover; those of a turn of credits
-- @include  due_rollovers, keys, lists, time
--
-- late_ms is by how much the first credit that was due is late. rolled, turned, born and credits_turned count since
-- the last run, whichever script it was. unplanned are budgets for
-- lua/governance/plan_periods.lua, or windows of budgets for plan_window.lua, which turn first; ends is when the
-- current period or window ends. Templates for plan_budget_template.lua are also among them, with `template`, the
-- tenant and their id as scope, unit and window.
local period_index, rolled, period_plans, turned, born = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local credit_index, credits_turned = KEYS[6], KEYS[7]
local limit = tonumber(ARGV[1])

local tag = keys.tag_of(period_index)
local now = time.now_ms()
local due = redis.call('ZRANGEBYSCORE', period_index, '-inf', time.ms_text(now), 'LIMIT', 0, limit)
local due_credits = redis.call('ZRANGEBYSCORE', credit_index, '-inf', time.ms_text(now), 'LIMIT', 0, limit)
local late_since = due_credits[1] and redis.call('ZSCORE', credit_index, due_credits[1])

-- Nothing is refused below this line.
local damaged, plans = due_rollovers.roll_over_members(tag, period_index, due, now), {}
due_rollovers.append_unplanned(plans, damaged, tag, period_plans,
  redis.call('ZRANGEBYSCORE', period_plans, '-inf', time.ms_text(now), 'LIMIT', 0, limit), now)
due_rollovers.turn_credits(damaged, tag, credit_index, due_credits, now)

local function first_score(index)
  return tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or '')
end

local following = math.min(first_score(period_index) or math.huge, first_score(credit_index) or math.huge)

local function taken(key)
  local count = redis.pcall('GETDEL', key)
  return type(count) == 'string' and count or '0'
end

local reply = { time.ms_text(now), taken(rolled), taken(turned), taken(born), taken(credits_turned),
  late_since and time.ms_text(now - tonumber(late_since)) or '',
  following < math.huge and time.ms_text(following) or '',
  (#due == limit or #due_credits == limit) and '1' or '0', tostring(#damaged / 2), unpack(damaged) }
return lists.append_all(reply, plans)
