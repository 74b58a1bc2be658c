-- window_record: further limits of a budget, each for one window of the calendar, such as a day inside the month that
-- the budget is for.
-- @include int64
--
-- A budget with windows has three more fields, each with the windows in the same order:
-- windows       name,limit,spent,starts,ends of each, with spaces between windows; instants in ms, the end is the start
--               of the next one.
-- window_rules  their recurrences, with | between.
-- window_plans  the ends of the windows to come, ascending, with commas between, and | between windows.
-- A window has no figure for what is held: a hold counts in the window in which it is committed, so what the budget
-- holds counts in every current window. So whatever makes, releases or expires holds does not write windows, and only
-- charges do.
-- limit - spent - reserved is what remains in a window. An amount needs that much in each of them, and in the budget
-- itself.
-- A window without a planned end stays as it is until there is one: it may turn late then, but never at a wrong
-- instant.
local LOWEST = '-9223372036854775808'
local WINDOW_FORM = '^([%w_-]+),(%d+),(%d+),(%d+),(%d+)$'

local function damaged_windows(key, what)
  error('corrupt budget record ' .. key .. ': its ' .. what .. ' are not valid')
end

local function instant(text)
  return #text <= 15 and tonumber(text) or nil
end

-- The windows in the field of that name. Ends the script if it is damaged.
local function parse_windows(key, text)
  local windows = {}
  for part in string.gmatch(text, '[^ ]+') do
    local name, limit, spent, starts, ends = string.match(part, WINDOW_FORM)
    if not (name and int64.is_amount(limit) and int64.is_amount(spent) and instant(starts) and instant(ends)
      and instant(starts) < instant(ends)) then
      damaged_windows(key, 'windows')
    end
    windows[#windows + 1] = { name = name, limit = int64.figure(limit), spent = int64.figure(spent),
      starts = instant(starts), ends = instant(ends) }
  end
  if #windows == 0 then
    damaged_windows(key, 'windows')
  end
  return windows
end

local function windows_text(windows)
  local parts = {}
  for i, window in ipairs(windows) do
    parts[i] = string.format('%s,%s,%s,%d,%d', window.name, int64.text(window.limit), int64.text(window.spent),
      window.starts, window.ends)
  end
  return table.concat(parts, ' ')
end

-- The plans in the field of that name: for each window, its boundaries to come as texts, ascending.
local function parse_plans(key, text, windows)
  local plans = {}
  for part in string.gmatch((text or '') .. '|', '([^|]*)|') do
    local plan, window = {}, windows[#plans + 1]
    local last = window and window.ends or 0
    for boundary in string.gmatch(part, '[^,]+') do
      local at = string.find(boundary, '^%d+$') and instant(boundary)
      if not at or at <= last then
        damaged_windows(key, 'window_plans')
      end
      plan[#plan + 1], last = boundary, at
    end
    plans[#plans + 1] = plan
  end
  if #plans ~= #windows then
    damaged_windows(key, 'window_plans')
  end
  return plans
end

local function plans_text(plans)
  local parts = {}
  for i, plan in ipairs(plans) do
    parts[i] = table.concat(plan, ',')
  end
  return table.concat(parts, '|')
end

-- The recurrences in the field of that name.
local function rules_of(text)
  local rules = {}
  for rule in string.gmatch(text or '', '[^|]+') do
    rules[#rules + 1] = rule
  end
  return rules
end

-- A window of a budget, and the ends of those after it, ascending, as texts. `boundaries` are instants of its rule,
-- with commas between. It begins now with nothing spent, unless there is a `former` one of its name, which it
-- continues. Nil if too few of them are to come.
local function begun_window(name, limit, boundaries, former, now)
  local plan = {}
  for boundary in string.gmatch(boundaries, '%d+') do
    if tonumber(boundary) > now then
      plan[#plan + 1] = boundary
    end
  end
  if #plan < 2 then
    return nil
  end
  local earlier, ends = former or { spent = 0, starts = now }, table.remove(plan, 1)
  return { name = name, limit = int64.figure(limit), spent = earlier.spent, starts = earlier.starts,
    ends = tonumber(ends) }, plan
end

local function has_ended(windows, now)
  for _, window in ipairs(windows) do
    if window.ends <= now then
      return true
    end
  end
  return false
end

-- The windows that `now` is in, what is left of their plans, and how many of them have turned. However many windows
-- have passed, a window turns once: those in between had nothing to count.
local function windows_at(windows, plans, now)
  local current, left, turned = {}, {}, 0
  for i, window in ipairs(windows) do
    local plan, starts, ends, used = plans[i], window.starts, window.ends, 0
    while ends <= now and plan[used + 1] do
      starts, ends, used = ends, tonumber(plan[used + 1]), used + 1
    end
    current[i], left[i] = window, plan
    if used > 0 then
      current[i] = { name = window.name, limit = window.limit, spent = 0, starts = starts, ends = ends }
      left[i] = { unpack(plan, used + 1) }
      turned = turned + 1
    end
  end
  return current, left, turned
end

-- The windows that `now` is in, for scripts that do not write them.
local function current_windows(key, text, status, now)
  local windows = parse_windows(key, text)
  if status == 'CLOSED' or not has_ended(windows, now) then
    return windows
  end
  return (windows_at(windows, parse_plans(key, redis.call('HGET', key, 'window_plans'), windows), now))
end

-- What remains in a window of a budget that holds `reserved`. Takes and returns figures of lua/lib/int64.lua.
local function window_room(window, reserved)
  return int64.sub(int64.sub(window.limit, window.spent), reserved) or LOWEST
end

-- The name of the first window in which less than the amount remains, what remains there, and its limit; or nil.
local function short_window(windows, reserved, wanted)
  for _, window in ipairs(windows) do
    local room = window_room(window, reserved)
    if int64.less(room, wanted) then
      return window.name, int64.text(room), window.limit
    end
  end
  return nil
end

-- The windows after a charge, or nil if a figure would leave int64.
local function charged_windows(windows, amount)
  local charged = {}
  for i, window in ipairs(windows) do
    local spent = int64.add(window.spent, amount)
    if not spent then
      return nil
    end
    charged[i] = { name = window.name, limit = window.limit, spent = int64.figure(int64.text(spent)),
      starts = window.starts, ends = window.ends }
  end
  return charged
end

return {
  begun_window = begun_window, charged_windows = charged_windows, current_windows = current_windows,
  has_ended = has_ended,
  parse_plans = parse_plans, parse_windows = parse_windows, plans_text = plans_text, rules_of = rules_of,
  short_window = short_window, window_room = window_room, windows_at = windows_at, windows_text = windows_text,
}
