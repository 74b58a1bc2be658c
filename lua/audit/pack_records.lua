#!lua flags=allow-oom
-- pack_records: follow the journal, some entries at a time: convert the records of the reservations that have ended to
-- their compact form, and remove the entries that are not waiting for the archiver.
-- allow-oom: it frees memory.
--
-- KEYS[1]   journal        stream
-- ARGV[1]   limit          entries per run
-- RETURNS   PACKED examined:int packed:int remaining:int passed:int lost:int
-- BOUND     limit entries, 256 KiB of them; a record with more than 4 KiB of metadata is skipped
-- EMITS     nothing
-- @include  journal, keys, pack_record, stream_walk
--
-- Skips records that no longer exist, have long metadata, or cannot be restored exactly. examined counts the records
-- that entries name; debits have none. How far it has come is written in the same run, so no lease is needed, and no
-- entry is passed twice. lost counts the entries that waited for the archiver for too long (lua/lib/journal.lua).
local stream = KEYS[1]
local limit = tonumber(ARGV[1])

local tag = keys.tag_of(stream)
local places = keys.journal_places(tag)
local examined, packed = 0, 0
local after = redis.call('HGET', places, 'packed')

-- Nothing is refused below this line.
local last, passed, more =
  stream_walk.walk_stream('XRANGE', stream, after and '(' .. after or '-', '+', limit, function(entry)
  local reservation_id = journal.reservation_of(tag, entry[2])
  if reservation_id then
    examined = examined + 1
    local readable, done = pcall(pack_record, keys.reservation(tag, reservation_id))
    if readable and done then
      packed = packed + 1
    end
  end
end)
if last then
  redis.call('HSET', places, 'packed', last)
  redis.call('HINCRBY', places, 'kept', passed)
end
if not more then
  redis.call('HSET', places, 'kept', redis.call('XLEN', stream))
end
local lost = journal.trim(tag)
local remaining = more and redis.call('XLEN', stream) - tonumber(redis.call('HGET', places, 'kept')) or 0
return { 'PACKED', tostring(examined), tostring(packed), tostring(remaining), tostring(passed), tostring(lost) }
