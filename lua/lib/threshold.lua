-- threshold: emits an event when the utilization of a budget crosses a watched mark.
-- @include event_writer, keys
--
-- The protocol's utilization is (spent + reserved) / allocated. Each crossing of a mark emits an event: `rising` if utilization
-- reaches the mark or exceeds it, `falling` if it drops below. The marks are those that the tenant's webhook subscriptions ask for
-- (field `th` of the tenant's record, comma-separated), or 0.8, 0.95 and 1 if that field is unset. Whatever changes one of the figures
-- emits its crossings, so a rising one of a mark is followed by a falling one. Doubles are precise enough: only the event depends on the ratio.
local USUAL_MARKS = { 0.8, 0.95, 1, lowest = 0.8 }

local function marks_of(text)
  if not text then
    return USUAL_MARKS
  end
  local marks = { lowest = math.huge }
  for mark in string.gmatch(text, '[^,]+') do
    local number = tonumber(mark)
    if number then
      marks[#marks + 1], marks.lowest = number, math.min(marks.lowest, number)
    end
  end
  return marks
end

local function watched_marks(tag, tenant)
  local text = redis.pcall('HGET', keys.tenant(tag, tenant), 'th')
  return marks_of(type(text) == 'string' and text)
end

-- Takes figures of lua/lib/int64.lua, or text, which arithmetic converts to numbers. A budget that is used although nothing is allocated,
-- after a RESET to 0 for example, exceeds each mark.
local function utilization(allocated, remaining, debt)
  local used = allocated - remaining - debt
  return used == 0 and 0 or used / allocated
end

-- The marks crossed between two utilizations, with their directions, or nil.
local function crossings_between(marks, before, after)
  if before < marks.lowest and after < marks.lowest then
    return nil
  end
  local crossings
  for i = 1, #marks do
    local mark = marks[i]
    if (before < mark) ~= (after < mark) then
      crossings = crossings or { use = after }
      crossings[#crossings + 1] = { mark, after < mark and 'falling' or 'rising' }
    end
  end
  return crossings
end

-- The same between two states of a budget whose allocation stays as it is.
local function crossings_of(marks, allocated, former_remaining, former_debt, remaining, debt)
  return crossings_between(marks, utilization(allocated, former_remaining, former_debt), utilization(allocated, remaining, debt))
end

-- Returns the last entry's id.
local function emit_crossings(tag, tenant, origin, unit, budget, crossings)
  local entry
  local use = crossings.use < math.huge and string.format('%.4f', crossings.use) or ''
  for _, crossing in ipairs(crossings) do
    entry = event_writer.append_event(tag, 'budget.threshold_crossed', tenant, budget.scope, origin,
      { 'unit', unit, 'threshold', tostring(crossing[1]), 'utilization', use, 'direction', crossing[2],
        'allocated', budget.allocated, 'remaining', budget.remaining, 'spent', budget.spent, 'reserved', budget.reserved })
  end
  return entry
end

-- Emits the crossings between two states of a budget, whichever of its figures differ.
local function emit_crossings_between(tag, tenant, origin, unit, former, budget)
  local crossings = crossings_between(watched_marks(tag, tenant), utilization(former.allocated, former.remaining, former.debt),
    utilization(budget.allocated, budget.remaining, budget.debt))
  if crossings then
    emit_crossings(tag, tenant, origin, unit, budget, crossings)
  end
end

return {
  crossings_of = crossings_of, emit_crossings = emit_crossings, emit_crossings_between = emit_crossings_between,
  marks_of = marks_of, watched_marks = watched_marks,
}
