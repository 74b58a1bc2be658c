#!lua flags=no-writes
-- read_deliveries: what an attempt needs to know about each of some deliveries, with their events.
--
-- KEYS[1]   event_log      stream
-- ARGV[...] refs of deliveries
-- RETURNS   READ now_ms deliveries(ref status? attempts:int? created_ms? next_retry_ms? response_status:int?
--           field_count event{})*
-- BOUND     the given deliveries, until 256 KiB of events are read
-- EMITS     nothing
-- @include  keys, stream_walk, time
--
-- The reply covers the first of the refs, at least one.
-- status is empty if the record no longer exists, and field_count is 0 if the event no longer exists.
local event_log = KEYS[1]

local tag = keys.tag_of(event_log)
local reply = { 'READ', time.ms_text(time.now_ms()) }
local function add(value)
  reply[#reply + 1] = value or ''
end
local bytes = 0
for _, ref in ipairs(ARGV) do
  local record = redis.call('HMGET', keys.delivery(tag, ref), 'st', 'at', 'ca', 'nr', 'rs')
  local entry_id = string.match(ref, '^(%d+%-%d+):')
  local entry = entry_id and redis.call('XRANGE', event_log, entry_id, entry_id)[1]
  local fields = entry and entry[2] or {}
  add(ref)
  for i = 1, 5 do
    add(record[i])
  end
  add(tostring(#fields / 2))
  for i = 1, #fields do
    add(fields[i])
  end
  bytes = bytes + stream_walk.entry_bytes(fields)
  if bytes >= stream_walk.STREAM_BYTES then
    break
  end
end
return reply
