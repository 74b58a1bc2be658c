#!lua flags=allow-oom
-- archive_lease: take or renew the lease of a partition's archiver, and read how far the partition is archived.
-- allow-oom: what waits for the archiver takes memory.
--
-- KEYS[1]   lease          string, the token of the instance that archives the partition
-- KEYS[2]   journal        stream
-- ARGV[1]   token          the calling instance
-- ARGV[2]   lease_ms
-- RETURNS   HELD now_ms lease:renewed|taken epoch:int streams(name cursor through_ms? oldest_ms? waiting:int lost?)*
--           | OTHER now_ms lapses_in_ms
-- BOUND     the three streams of a partition
-- EMITS     nothing
-- @include  archived, entry_order, journal, keys, time
--
-- The first holder begins the archive: with what packing has not passed of the journal, and with all of the logs.
-- oldest_ms is the oldest entry that is not archived, and waiting how many the journal has. lost is the last entry that
-- was removed before it was archived, if the cursor has not passed it.
local lease, stream = KEYS[1], KEYS[2]
local token, lease_ms = ARGV[1], ARGV[2]

local now = time.now_ms()
local holder = redis.call('GET', lease)
if holder and holder ~= token then
  return { 'OTHER', time.ms_text(now), tostring(redis.call('PTTL', lease)) }
end
local tag = keys.tag_of(lease)
local places = keys.journal_places(tag)
journal.require_journal(tag)

-- Nothing is refused below this line.
archived.begin(tag, time.ms_text(now))
redis.call('HSET', places, 'seen', time.ms_text(time.redis_ms()))
redis.call('SET', lease, token, 'PX', lease_ms)
local reply = { 'HELD', time.ms_text(now), holder and 'renewed' or 'taken', archived.epoch_of(tag) }
for name, stream_of in pairs(archived.STREAMS) do
  local at = redis.call('HMGET', places, archived.cursor_of(name), archived.through_of(name), archived.lost_of(name))
  local cursor, lost = at[1], at[3]
  local first = redis.call('XRANGE', stream_of(tag), '(' .. cursor, '+', 'COUNT', 1)[1]
  reply[#reply + 1] = name
  reply[#reply + 1] = cursor
  reply[#reply + 1] = at[2] or ''
  reply[#reply + 1] = first and string.match(first[1], '^%d+') or ''
  reply[#reply + 1] = tostring(name == 'charges' and redis.call('XLEN', stream) or 0)
  reply[#reply + 1] = lost and entry_order.is_before(cursor, lost) and lost or ''
end
return reply
