-- archived: the streams of a partition that are archived, and how far each is.
-- @include entry_order, keys
--
-- The hash `journal-places` has for each the last entry that is archived, the instant in ms up to which everything is,
-- and the last entry that was removed before it was archived. Those of the journal are `cursor`, `through` and `lost`,
-- see lua/lib/journal.lua. `epoch` is that of the archive, which has more than one if Redis was put back
-- (src/archive/archive-epochs.ts).
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

local function epoch_of(tag)
  return redis.call('HGET', keys.journal_places(tag), 'epoch') or '1'
end

-- Begins the archive of a partition, if it has not begun: with what packing has not passed of the journal, and with all
-- of the logs.
local function begin(tag, now)
  local places = keys.journal_places(tag)
  for name in pairs(STREAMS) do
    local begins_at = name == 'charges' and redis.call('HGET', places, 'packed') or '0-0'
    if redis.call('HSETNX', places, cursor_of(name), begins_at) == 1 and name == 'charges' then
      redis.call('HSETNX', places, 'first', begins_at)
      redis.call('HSETNX', places, 'began', now)
    end
  end
end

-- Called when a log is trimmed up to an entry, which its retention does whether it is archived or not. An archive that
-- has not archived anything of the log begins behind it. Trimming must go on, so damaged places do not end the script.
local function note_removed(tag, name, last)
  local places = keys.journal_places(tag)
  local cursor = redis.pcall('HGET', places, cursor_of(name))
  if type(cursor) == 'string' and cursor ~= '0-0' and string.find(cursor, '^%d+%-%d+$')
    and entry_order.is_before(cursor, last) then
    redis.call('HSET', places, lost_of(name), last)
  end
end

return {
  STREAMS = STREAMS, begin = begin, cursor_of = cursor_of, epoch_of = epoch_of, lost_of = lost_of,
  note_removed = note_removed, through_of = through_of,
}
