#!lua flags=allow-oom
-- archive_epoch: begin an epoch of the archive in a partition. Without cursors, only let nobody archive it until that
-- is done.
-- allow-oom: what waits for the archiver takes memory.
--
-- KEYS[1]   journal        stream
-- ARGV[1]   epoch          its number; 0 without cursors
-- ARGV[2]   charges        the last entry that is archived, of the journal, or empty
-- ARGV[3]   events         of the event log
-- ARGV[4]   audit          of the audit log
-- RETURNS   AT now_ms charges events audit
-- BOUND     the three streams of a partition
-- EMITS     nothing
-- @include  archived, journal, keys, time
--
-- Replies how far each stream is archived. Whoever read or wrote for another epoch finds it changed, and moves no
-- cursor.
local stream = KEYS[1]
local epoch, cursors = ARGV[1], { charges = ARGV[2], events = ARGV[3], audit = ARGV[4] }

local tag = keys.tag_of(stream)
local places = keys.journal_places(tag)
local now = time.now_ms()
journal.require_journal(tag)

-- Nothing is refused below this line.
archived.begin(tag, time.ms_text(now))
redis.call('HSET', places, 'epoch', epoch)
for name, cursor in pairs(cursors) do
  if cursor ~= '' then
    redis.call('HSET', places, archived.cursor_of(name), cursor)
  end
end
local at = redis.call('HMGET', places, archived.cursor_of('charges'), archived.cursor_of('events'),
  archived.cursor_of('audit'))
return { 'AT', time.ms_text(now), at[1], at[2], at[3] }
