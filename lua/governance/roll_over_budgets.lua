#!lua flags=allow-oom
-- roll_over_budgets: roll over budgets of a partition that nobody has used since their period ended.
-- allow-oom: a new period frees budget, and must begin when Redis is full.
--
-- KEYS[1]   period_index     sorted set of 'scope unit', score = the end of its period in ms
-- KEYS[2]   rolled           string, rollovers since the last run of this script
-- KEYS[3]   period_plans     sorted set of 'scope unit', score = when its boundaries must be planned again, in ms
-- ARGV[1]   limit            budgets per run, at least 1
-- RETURNS   now_ms rolled:int next_ms? more:flag damaged_count damaged(scope unit)* unplanned(scope unit recurrence? period_end?)*
-- BOUND     limit budgets, eight rollovers each; limit plans
-- EMITS     those of a rollover
-- @include  keys: tag_of_key, budget_key
-- @include  now_ms: now_ms, ms_text
-- @include  rollover: roll_over
--
-- rolled counts all rollovers since the last run, whichever script made them. A damaged budget leaves the index, so that it does not
-- come up forever. The operations on it report it. unplanned are budgets for lua/governance/plan_periods.lua.
local period_index, rolled, period_plans = KEYS[1], KEYS[2], KEYS[3]
local limit = tonumber(ARGV[1])

local tag = tag_of_key(period_index)
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', period_index, '-inf', ms_text(now), 'LIMIT', 0, limit)

-- Nothing is refused below this line.
local damaged = {}
for _, member in ipairs(due) do
  local scope, unit = string.match(member, '^(%S+) (%S+)$')
  local key = budget_key(tag, unit or '', scope or '')
  local readable, count = pcall(roll_over, tag, key, unit, scope, now)
  if not readable then
    damaged[#damaged + 1], damaged[#damaged + 2] = scope or member, unit or ''
    redis.call('ZREM', period_index, member)
  elseif count == 0 then
    -- The budget is closed, or has no boundary left, or its entry was wrong.
    local record = redis.call('HMGET', key, 'period_end', 'status')
    if record[2] == 'CLOSED' or tonumber(record[1]) <= now then
      redis.call('ZREM', period_index, member)
    else
      redis.call('ZADD', period_index, record[1], member)
    end
  end
end
local following = redis.call('ZRANGE', period_index, 0, 0, 'WITHSCORES')[2] or ''
local total = redis.pcall('GETDEL', rolled)
local reply = { ms_text(now), type(total) == 'string' and total or '0', following, #due == limit and '1' or '0', tostring(#damaged / 2), unpack(damaged) }
for _, member in ipairs(redis.call('ZRANGEBYSCORE', period_plans, '-inf', ms_text(now), 'LIMIT', 0, limit)) do
  local scope, unit = string.match(member, '^(%S+) (%S+)$')
  local record = redis.pcall('HMGET', budget_key(tag, unit or '', scope or ''), 'recurrence', 'period_end')
  for _, text in ipairs({ scope or member, unit or '', record[1] or '', record[2] or '' }) do
    reply[#reply + 1] = text
  end
end
return reply
