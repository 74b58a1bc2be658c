-- archived: the streams of a partition that are archived, and how far each is.
-- @include entry_order, keys
--
-- The hash `journal-places` has for each the last entry that is archived, the instant in ms up to which everything is, and the last entry that
-- was removed before it was archived. Those of the journal are `cursor`, `through` and `lost`, see lua/lib/journal.lua.
local STREAMS = { charges = keys.journal, events = keys.event_log, audit = keys.audit_log }

local function prefix_of(name)
  return name == 'charges' and '' or name .. '-'
end

local function cursor_of(name)
  return prefix_of(name) .. 'cursor'
end

local function through_of(name)
  return prefix_of(name) .. 'through'
end

local function lost_of(name)
  return prefix_of(name) .. 'lost'
end

-- Called when a log is trimmed up to an entry, which its retention does whether it is archived or not. An archive that has not archived
-- anything of the log begins behind it. Trimming must go on, so damaged places do not end the script.
local function note_removed(tag, name, last)
  local places = keys.journal_places(tag)
  local cursor = redis.pcall('HGET', places, cursor_of(name))
  if type(cursor) == 'string' and cursor ~= '0-0' and string.find(cursor, '^%d+%-%d+$') and entry_order.is_before(cursor, last) then
    redis.call('HSET', places, lost_of(name), last)
  end
end

return { STREAMS = STREAMS, cursor_of = cursor_of, lost_of = lost_of, note_removed = note_removed, through_of = through_of }
