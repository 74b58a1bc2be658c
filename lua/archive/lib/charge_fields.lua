-- charge_fields: what an entry of the journal and the record or event that it names say of a charge.
-- @include field, hold_form, journal, keys, stream_walk
--
-- A flat list of names and values. Fields of a record have their stored names (lua/lib/field.lua), those of an event
-- theirs (lua/lib/event_writer.lua); those of the entry come last and win, with `id` spelled out. A record that is gone
-- or damaged adds nothing.
local METADATA = { [field.metadata] = true, [field.commit_metadata] = true }

local function of_record(tag, reservation_id, with_metadata, fields)
  local key, bytes = keys.reservation(tag, reservation_id), 0
  local readable, record = pcall(with_metadata and hold_form.record_fields or hold_form.short_fields, key)
  for _, name in ipairs(readable and field.ARCHIVED or {}) do
    local value = record[name]
    if value and (with_metadata or not METADATA[name]) then
      fields[#fields + 1], fields[#fields + 2] = name, value
      bytes = bytes + #value
    end
  end
  return bytes
end

-- Adds the fields of an event, and returns how many bytes their values have.
local function add_told(told, with_metadata, fields)
  local bytes = 0
  for i = 1, #told, 2 do
    if with_metadata or not METADATA[told[i]] then
      fields[#fields + 1], fields[#fields + 2] = told[i], told[i + 1]
      bytes = bytes + #told[i + 1]
    end
  end
  return bytes
end

local function of_event(tag, event, with_metadata, fields)
  local found = redis.pcall('XRANGE', keys.event_log(tag), event, event)
  return add_told(found and not found.err and found[1] and found[1][2] or {}, with_metadata, fields)
end

local function of_entry(tag, entry, with_metadata)
  local fields, reservation_id = {}, journal.reservation_of(tag, entry)
  local bytes = reservation_id and of_record(tag, reservation_id, with_metadata, fields)
    or of_event(tag, stream_walk.value_of(entry, 'event') or '-', with_metadata, fields)
  for i = 1, #entry, 2 do
    fields[#fields + 1] = entry[i]
    fields[#fields + 1] = entry[i] == 'id' and reservation_id or entry[i + 1]
  end
  return fields, bytes
end

return { add_told = add_told, of_entry = of_entry }
