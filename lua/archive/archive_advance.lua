#!lua flags=allow-oom
-- archive_advance: note that a stream of a partition is archived up to an entry, and let the journal go up to there.
-- allow-oom: it frees memory.
--
-- KEYS[1]   stream         of the partition: the journal, the event log or the audit log
-- ARGV[1]   name           of the stream: charges, events or audit
-- ARGV[2]   cursor         where the file begins
-- ARGV[3]   last           the last entry in the file; equal to cursor if there was none
-- ARGV[4]   epoch          for which the file was written
-- ARGV[5]   through_ms     the instant up to which everything is archived, or empty
-- RETURNS   ADVANCED | MOVED cursor
-- BOUND     the entries of one file
-- EMITS     nothing
-- @include  archived, entry_order, journal, keys
--
-- Without a lease: only one file begins at the cursor and can move it, and only forward. Called when the file is safe
-- on its disk. One of another epoch was read before Redis was put back, and moves nothing. An instant that is earlier
-- than the noted one, because Redis' clock was set back, leaves that as it is.
local stream = KEYS[1]
local name, cursor, last, epoch, through_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local tag = keys.tag_of(stream)
local places = keys.journal_places(tag)
local at = redis.call('HMGET', places, archived.cursor_of(name), archived.through_of(name))
if at[1] ~= cursor or archived.epoch_of(tag) ~= epoch or entry_order.is_before(last, cursor) then
  return { 'MOVED', at[1] or '' }
end
journal.require_journal(tag)

-- Nothing is refused below this line.
redis.call('HSET', places, archived.cursor_of(name), last)
if through_ms ~= '' and tonumber(through_ms) > (tonumber(at[2]) or 0) then
  redis.call('HSET', places, archived.through_of(name), through_ms)
end
if name == 'charges' and last ~= cursor then
  journal.trim(tag)
end
return { 'ADVANCED' }
