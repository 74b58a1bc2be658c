-- due_rollovers: rolls over budgets that an index of boundaries says are due.
-- @include keys, lists, rollover, time, window_record, window_turn

-- Returns the scope and unit of each budget that is damaged, and the number of rollovers. A damaged budget leaves the
-- index, so that it does not come up forever. The operations on it report it.
local function roll_over_members(tag, index, members, now)
  local damaged, rolled = {}, 0
  for _, member in ipairs(members) do
    local scope, unit = string.match(member, '^(%S+) (%S+)$')
    local key = keys.budget(tag, unit or '', scope or '')
    local readable, count = pcall(rollover.roll_over, tag, key, unit, scope, now)
    if not readable then
      damaged[#damaged + 1], damaged[#damaged + 2] = scope or member, unit or ''
      redis.call('ZREM', index, member)
    elseif count == 0 then
      -- The budget is closed, or has no boundary left, or its entry was wrong.
      local record = redis.call('HMGET', key, 'period_end', 'status')
      if record[2] == 'CLOSED' or tonumber(record[1]) <= now then
        redis.call('ZREM', index, member)
      else
        redis.call('ZADD', index, record[1], member)
      end
    else
      rolled = rolled + count
    end
  end
  return damaged, rolled
end

-- Lets what is due in the credits of budgets happen. Likewise, a damaged budget leaves the index, and is appended to
-- `damaged`.
local function turn_credits(damaged, tag, index, members, now)
  for _, member in ipairs(members) do
    local scope, unit = string.match(member, '^(%S+) (%S+)$')
    local key = keys.budget(tag, unit or '', scope or '')
    local readable = pcall(function()
      local f = redis.call('HMGET', key, 'period_end', 'credits', 'status')
      local has_passed = f[2] and f[3] ~= 'CLOSED'
        and rollover.pass_if_due(tag, key, unit, scope, f[1], f[2], f[3], now)
      local moment = string.match(f[3] ~= 'CLOSED' and f[2] or '', '^%d+')
      if not has_passed and moment then
        redis.call('ZADD', index, moment, member)
      elseif not has_passed then
        redis.call('ZREM', index, member)
      end
    end)
    if not readable then
      damaged[#damaged + 1], damaged[#damaged + 2] = scope or member, unit or ''
      redis.call('ZREM', index, member)
    end
  end
end

-- The recurrence of a window and the end of the current one; nothing if it is gone.
local function window_of(tag, key, name, now)
  local record = redis.call('HMGET', key, 'windows', 'window_rules', 'status')
  if record[1] and window_turn.turn_windows_if_due(tag, key, record[1], record[3], now) then
    record = redis.call('HMGET', key, 'windows', 'window_rules')
  end
  for i, window in ipairs(record[1] and window_record.parse_windows(key, record[1]) or {}) do
    if window.name == name then
      return { window_record.rules_of(record[2])[i], time.ms_text(window.ends) }
    end
  end
  return {}
end

-- The same of a budget's own periods.
local function plan_in(_, key)
  return redis.pcall('HMGET', key, 'recurrence', 'period_end')
end

-- Appends the budgets and windows whose boundaries must be planned: scope, unit, window, recurrence, and the end of the
-- current period or window of each. A damaged one leaves the index, and its scope and unit are appended to `damaged`.
local function append_unplanned(list, damaged, tag, index, members, now)
  for _, member in ipairs(members) do
    local scope, unit, window = string.match(member, '^(%S+) (%S+) ?(%S*)$')
    local key = keys.budget(tag, unit or '', scope or '')
    local is_window = (window or '') ~= ''
    local readable, record = pcall(is_window and window_of or plan_in, tag, key, window, now)
    if readable then
      lists.append_all(list, { scope or member, unit or '', window or '', record[1] or '', record[2] or '' })
    else
      damaged[#damaged + 1], damaged[#damaged + 2] = scope, unit
      redis.call('ZREM', index, member)
    end
  end
end

return { append_unplanned = append_unplanned, roll_over_members = roll_over_members, turn_credits = turn_credits }
