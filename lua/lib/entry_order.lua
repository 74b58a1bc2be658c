-- entry_order: the order of the ids of a stream's entries.
--
-- A sequence of more than 2^53 is not exact; Redis gives such a one only to somebody who asks for it.
local function parts_of(id)
  local ms, sequence = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(sequence)
end

local function is_before(one, other)
  local ms, sequence = parts_of(one)
  local other_ms, other_sequence = parts_of(other)
  return ms < other_ms or ms == other_ms and sequence < other_sequence
end

-- The highest id before an entry's. None can have been given for a sequence of 0 but those of the millisecond before.
local function id_before(id)
  local ms, sequence = parts_of(id)
  if sequence > 0 then
    return string.format('%d-%d', ms, sequence - 1)
  end
  return string.format('%d-18446744073709551615', ms - 1)
end

return { id_before = id_before, is_before = is_before }
