-- window_turn: the one way in which a budget's windows turn. lua/lib/window.lua describes them.
-- @include keys: turned_key
-- @include tenant_clock: tenant_of_scope, period_plans_of
-- @include window: parse_windows, windows_text, parse_plans, plans_text, has_ended, windows_at
-- @include wake_waiters: wake_waiters
--
-- A turn is no event: it changes no figure of the budget, and nobody has to act on it. So nothing has to run when a window ends. The
-- first script that decides from the budget afterwards turns it.

-- Notes when a window's boundaries are to be planned again: before half of them have passed.
local function plan_windows_at(tag, unit, scope, name, plan)
  redis.call('ZADD', period_plans_of(tag, tenant_of_scope(scope)), plan[math.ceil(#plan / 2)], scope .. ' ' .. unit .. ' ' .. name)
end

-- Turns the windows of a budget whose end has passed. `text` is its field `windows`. Returns whether the caller has to read the budget again.
-- Ends the script, with nothing written, if the record is damaged.
local function turn_windows_if_due(tag, key, text, status, now)
  local windows = parse_windows(key, text)
  if status == 'CLOSED' or not has_ended(windows, now) then
    return false
  end
  local record = redis.call('HMGET', key, 'window_plans', 'waiting')
  local current, left, turned = windows_at(windows, parse_plans(key, record[1], windows), now)
  if turned == 0 then
    return false
  end
  redis.call('HSET', key, 'windows', windows_text(current), 'window_plans', plans_text(left))
  if record[2] then
    wake_waiters(key)
  end
  redis.pcall('INCRBY', turned_key(tag), turned)
  return true
end
