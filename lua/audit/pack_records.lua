#!lua flags=allow-oom
-- pack_records: convert records of ended reservations to their compact form, some at a time.
-- allow-oom: it frees memory.
--
-- KEYS[1]   ended          list of reservation ids, oldest end first
-- ARGV[1]   limit          records per run
-- RETURNS   PACKED examined:int packed:int remaining:int
-- BOUND     limit records; one with more than 4 KiB of metadata is skipped
-- EMITS     nothing
-- @include  keys, pack_record
--
-- Skips records that no longer exist, have long metadata, or cannot be restored exactly.
local ended = KEYS[1]
local limit = tonumber(ARGV[1])

local tag = keys.tag_of(ended)
local examined, packed = 0, 0

-- Nothing is refused below this line.
for _, reservation_id in ipairs(redis.call('LPOP', ended, limit) or {}) do
  examined = examined + 1
  local readable, done = pcall(pack_record, keys.reservation(tag, reservation_id))
  if readable and done then
    packed = packed + 1
  end
end
return { 'PACKED', tostring(examined), tostring(packed), tostring(redis.call('LLEN', ended)) }
