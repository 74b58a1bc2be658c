-- threshold: emits an event when the utilization of a budget crosses a watched mark.
-- @include keys: tenant_key
-- @include append_event: append_event
--
-- The protocol's utilization is (spent + reserved) / allocated. Each crossing of a mark emits an event: `rising` if utilization
-- reaches the mark or exceeds it, `falling` if it drops below. The marks are those that the tenant's webhook subscriptions ask for
-- (field `th` of the tenant's record, comma-separated), or 0.8, 0.95 and 1 if that field is unset. A budget with nothing allocated
-- has no utilization. Doubles are precise enough: only the event depends on the ratio.
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
  local text = redis.pcall('HGET', tenant_key(tag, tenant), 'th')
  return marks_of(type(text) == 'string' and text)
end

-- The marks crossed between two states of a budget, with their directions, or nil. Takes figures of lua/lib/int64.lua, or text.
local function crossings_of(marks, allocated, former_remaining, former_debt, remaining, debt)
  -- Arithmetic converts text to numbers.
  allocated = allocated + 0
  if allocated <= 0 then
    return nil
  end
  local before, after = (allocated - former_remaining - former_debt) / allocated, (allocated - remaining - debt) / allocated
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

-- Returns the last entry's id.
local function emit_crossings(tag, tenant, origin, unit, budget, crossings)
  local entry
  for _, crossing in ipairs(crossings) do
    entry = append_event(tag, 'budget.threshold_crossed', tenant, budget.scope, origin,
      { 'unit', unit, 'threshold', tostring(crossing[1]), 'utilization', string.format('%.4f', crossings.use), 'direction', crossing[2],
        'allocated', budget.allocated, 'remaining', budget.remaining, 'spent', budget.spent, 'reserved', budget.reserved })
  end
  return entry
end
