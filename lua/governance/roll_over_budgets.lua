#!lua flags=allow-oom
-- roll_over_budgets: roll over budgets of a partition that nobody has used since their period ended.
-- allow-oom: a new period frees budget, and must begin when Redis is full.
--
-- KEYS[1]   period_index     sorted set of 'scope unit', score = the end of its period in ms
-- KEYS[2]   rolled           string, rollovers since the last run of this script
-- KEYS[3]   period_plans     sorted set of 'scope unit' or 'scope unit window', score = when its boundaries must be planned again, in ms
-- KEYS[4]   turned           string, windows that have turned since the last run of this script
-- ARGV[1]   limit            budgets per run, at least 1
-- RETURNS   now_ms rolled:int turned:int next_ms? more:flag damaged_count damaged(scope unit)* unplanned(scope unit window? recurrence? ends?)*
-- BOUND     limit budgets, eight rollovers each; limit plans
-- EMITS     those of a rollover
-- @include  keys: tag_of_key, budget_key
-- @include  now_ms: now_ms, ms_text
-- @include  rollover: roll_over
-- @include  window: parse_windows, rules_of
-- @include  window_turn: turn_windows_if_due
--
-- rolled and turned count since the last run, whichever script it was. A damaged budget leaves the index, so that it does not
-- come up forever. The operations on it report it. unplanned are budgets for lua/governance/plan_periods.lua,
-- or windows of budgets for plan_window.lua, which turn first; ends is when the current period or window ends.
local period_index, rolled, period_plans, turned = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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

-- The recurrence of a window and the end of the current one; nothing if it is gone.
local function window_of(key, name)
  local record = redis.call('HMGET', key, 'windows', 'window_rules', 'status')
  if record[1] and turn_windows_if_due(tag, key, record[1], record[3], now) then
    record = redis.call('HMGET', key, 'windows', 'window_rules')
  end
  for i, window in ipairs(record[1] and parse_windows(key, record[1]) or {}) do
    if window.name == name then
      return { rules_of(record[2])[i], ms_text(window.ends) }
    end
  end
  return {}
end

-- The same of a budget's own periods.
local function plan_in(key)
  return redis.pcall('HMGET', key, 'recurrence', 'period_end')
end

local plans = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', period_plans, '-inf', ms_text(now), 'LIMIT', 0, limit)) do
  local scope, unit, window = string.match(member, '^(%S+) (%S+) ?(%S*)$')
  local key = budget_key(tag, unit or '', scope or '')
  local is_window = (window or '') ~= ''
  local readable, record = pcall(is_window and window_of or plan_in, key, window)
  if readable then
    for _, text in ipairs({ scope or member, unit or '', window or '', record[1] or '', record[2] or '' }) do
      plans[#plans + 1] = text
    end
  else
    damaged[#damaged + 1], damaged[#damaged + 2] = scope, unit
    redis.call('ZREM', period_plans, member)
  end
end
local following = redis.call('ZRANGE', period_index, 0, 0, 'WITHSCORES')[2] or ''

local function taken(key)
  local count = redis.pcall('GETDEL', key)
  return type(count) == 'string' and count or '0'
end

local reply = { ms_text(now), taken(rolled), taken(turned), following, #due == limit and '1' or '0', tostring(#damaged / 2), unpack(damaged) }
for _, text in ipairs(plans) do
  reply[#reply + 1] = text
end
return reply
