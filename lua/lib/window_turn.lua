-- window_turn: the one way in which a budget's windows turn. lua/lib/window_record.lua describes them.
-- @include extras, keys, waking, window_record
--
-- A turn is no event: it changes no figure of the budget, and nobody has to act on it. So nothing has to run when a
-- window ends. The first script that decides from the budget afterwards turns it.

-- Notes when a window's boundaries are to be planned again: before half of them have passed.
local function plan_windows_at(tag, unit, scope, name, plan)
  redis.call('ZADD', keys.period_plans(tag), plan[math.ceil(#plan / 2)], scope .. ' ' .. unit .. ' ' .. name)
end

-- Writes the windows of a budget, with their rules and plans in the same order.
local function set_windows(tag, key, unit, scope, windows, rules, plans)
  redis.call('HSET', key, 'windows', window_record.windows_text(windows), 'window_rules', table.concat(rules, '|'),
    'window_plans', window_record.plans_text(plans))
  for i, window in ipairs(windows) do
    plan_windows_at(tag, unit, scope, window.name, plans[i])
  end
  extras.mark_extras(key)
end

-- Turns the windows of a budget whose end has passed. `text` is its field `windows`. Returns whether the caller has to
-- read the budget again.
-- Ends the script, with nothing written, if the record is damaged.
local function turn_windows_if_due(tag, key, text, status, now)
  local windows = window_record.parse_windows(key, text)
  if status == 'CLOSED' or not window_record.has_ended(windows, now) then
    return false
  end
  local record = redis.call('HMGET', key, 'window_plans', 'waiting')
  local current, left, turned =
    window_record.windows_at(windows, window_record.parse_plans(key, record[1], windows), now)
  if turned == 0 then
    return false
  end
  redis.call('HSET', key, 'windows', window_record.windows_text(current), 'window_plans',
    window_record.plans_text(left))
  if record[2] then
    waking.wake_waiters(key)
  end
  redis.pcall('INCRBY', keys.turned(tag), turned)
  return true
end

return { plan_windows_at = plan_windows_at, set_windows = set_windows, turn_windows_if_due = turn_windows_if_due }
