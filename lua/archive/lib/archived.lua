-- archived: the streams of a partition that are archived, and how far each is.
-- @include keys
--
-- The hash `journal-places` has for each the last entry that is archived, and the instant in ms up to which everything is. Those of the journal
-- are `cursor` and `through`, see lua/lib/journal.lua.
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

return { STREAMS = STREAMS, cursor_of = cursor_of, through_of = through_of }
