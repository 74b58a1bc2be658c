-- threshold: emits an event when the utilization of a budget crosses a watched mark.
-- @include event_writer, keys, usual_marks
--
-- The protocol's utilization is (spent + reserved) / allocated. Each crossing of a mark emits an event: `rising` if
-- utilization reaches the mark or exceeds it, `falling` if it drops below. The marks are those that the tenant's
-- webhook subscriptions ask for (field `th` of the tenant's record, comma-separated), or those of
-- lua/lib/usual_marks.lua if that field is unset. Whatever changes one of the figures emits its crossings, so a rising
-- one of a mark is followed by a falling one. A mark can also be an amount of one unit, such as TOKENS:5000, which is
-- compared with spent + reserved. Doubles are precise enough: only the event depends on the comparison.
local usual

-- The marks for budgets of that unit, which a damaged hold may not have. Those that are amounts are in `amounts`.
local function marks_of(text, unit)
  if not text then
    usual = usual or marks_of(usual_marks.TEXT)
    return usual
  end
  local marks = { lowest = math.huge, lowest_amount = math.huge }
  for mark in string.gmatch(text, '[^,]+') do
    local number = tonumber(mark)
    local of_unit, figure = string.match(mark, '^([A-Z_]+):(%d+)$')
    if number then
      marks[#marks + 1], marks.lowest = number, math.min(marks.lowest, number)
    elseif of_unit and of_unit == unit then
      local amount = tonumber(figure)
      marks.amounts = marks.amounts or {}
      marks.amounts[#marks.amounts + 1], marks.lowest_amount = amount, math.min(marks.lowest_amount, amount)
    end
  end
  return marks
end

local function watched_marks(tag, tenant, unit)
  local text = redis.pcall('HGET', keys.tenant(tag, tenant), 'th')
  return marks_of(type(text) == 'string' and text, unit)
end

-- Takes figures of lua/lib/int64.lua, or text, which arithmetic converts to numbers. A budget that is used although
-- nothing is allocated, after a RESET to 0 for example, exceeds each mark.
local function utilization(used, allocated)
  return used == 0 and 0 or used / allocated
end

-- Appends the marks between two figures, with their directions.
local function add_crossings(crossings, name, form, marks, before, after)
  for i = 1, #marks do
    local mark = marks[i]
    if (before < mark) ~= (after < mark) then
      crossings[#crossings + 1] = { name, string.format(form, mark), after < mark and 'falling' or 'rising' }
    end
  end
end

-- The marks crossed between two states of a budget, with their directions, or nil. `used` is allocated - remaining -
-- debt.
local function crossings_between(marks, former_allocated, former_used, allocated, used)
  local before, after = utilization(former_used, former_allocated), utilization(used, allocated)
  if before < marks.lowest and after < marks.lowest and former_used < marks.lowest_amount
    and used < marks.lowest_amount then
    return nil
  end
  local crossings = { use = after }
  add_crossings(crossings, 'threshold', '%.14g', marks, before, after)
  if marks.amounts then
    add_crossings(crossings, 'threshold_amount', '%.0f', marks.amounts, former_used, used)
  end
  return crossings[1] and crossings or nil
end

-- The same of a budget whose allocation stays as it is, but for what lapses of credits: then it was `former_allocated`.
local function crossings_of(marks, allocated, former_remaining, former_debt, remaining, debt, former_allocated)
  former_allocated = former_allocated or allocated
  return crossings_between(marks, former_allocated, former_allocated - former_remaining - former_debt, allocated,
    allocated - remaining - debt)
end

local function name_of(crossing)
  return crossing[1] == 'threshold' and crossing[2] or 'amount:' .. crossing[2]
end

-- Says of each rising crossing whether it is the first of its mark since the period began, and notes that in the
-- budget: its field `reached` has the start of the period, or nothing, and the marks. A mark stays noted when holds
-- end, so use that hovers about it is told of once. If funding, a reset or another period has put the use below it, the
-- mark is as new.
local function note_first(tag, unit, scope, crossings, is_change)
  if not unit then
    return
  end
  local key = keys.budget(tag, unit, scope)
  local found = redis.pcall('HMGET', key, 'period_start', 'reached')
  local starts = not found.err and found[1] or ''
  local noted_start, text = string.match(not found.err and found[2] or ' ', '^(%d*) (.*)$')
  local marks, has_changed = {}, false
  for mark in string.gmatch(noted_start == starts and text or '', '%S+') do
    marks[#marks + 1], marks[mark] = mark, true
  end
  for _, crossing in ipairs(crossings) do
    local name, is_rising = name_of(crossing), crossing[3] == 'rising'
    if is_rising and not marks[name] then
      marks[#marks + 1], marks[name], crossing.is_first, has_changed = name, true, true, true
    elseif not is_rising and is_change and marks[name] then
      marks[name], has_changed = nil, true
    end
  end
  if has_changed and not found.err then
    local kept = {}
    for _, mark in ipairs(marks) do
      kept[#kept + 1] = marks[mark] and mark or nil
    end
    redis.call('HSET', key, 'reached', starts .. ' ' .. table.concat(kept, ' '))
  end
end

-- Returns the last entry's id. `is_change` says that something other than a reservation or a charge has changed the
-- figures.
local function emit_crossings(tag, tenant, origin, unit, budget, crossings, is_change)
  local entry
  note_first(tag, unit, budget.scope, crossings, is_change)
  local use = crossings.use < math.huge and string.format('%.4f', crossings.use) or ''
  for _, crossing in ipairs(crossings) do
    entry = event_writer.append_event(tag, 'budget.threshold_crossed', tenant, budget.scope, origin,
      { 'unit', unit, crossing[1], crossing[2], 'utilization', use, 'direction', crossing[3],
        'allocated', budget.allocated, 'remaining', budget.remaining, 'spent', budget.spent, 'reserved',
        budget.reserved, 'first_in_period', crossing.is_first and '1' or '' })
  end
  return entry
end

-- Emits the crossings between two states of a budget, whichever of its figures differ.
local function emit_crossings_between(tag, tenant, origin, unit, former, budget)
  local crossings = crossings_between(watched_marks(tag, tenant, unit),
    former.allocated, former.allocated - former.remaining - former.debt,
    budget.allocated, budget.allocated - budget.remaining - budget.debt)
  if crossings then
    emit_crossings(tag, tenant, origin, unit, budget, crossings, true)
  end
end

return {
  crossings_of = crossings_of, emit_crossings = emit_crossings, emit_crossings_between = emit_crossings_between,
  marks_of = marks_of, watched_marks = watched_marks,
}
