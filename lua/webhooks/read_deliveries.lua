#!lua flags=no-writes
-- read_deliveries: what an attempt needs to know about each of some deliveries, with their events.
--
-- KEYS[1]   event_log      stream
-- ARGV[...] refs of deliveries
-- RETURNS   READ now_ms deliveries(ref status? attempts:int? created_ms? next_retry_ms? field_count event{})*
-- BOUND     the given deliveries, until 256 KiB of events are read
-- EMITS     nothing
-- @include  keys: tag_of_key, delivery_key
-- @include  now_ms: now_ms, ms_text
-- @include  stream_walk: STREAM_BYTES, entry_bytes
--
-- The reply covers the first of the refs, at least one.
-- status is empty if the record no longer exists, and field_count is 0 if the event no longer exists.
local event_log = KEYS[1]

local tag = tag_of_key(event_log)
local reply = { 'READ', ms_text(now_ms()) }
local function add(value)
  reply[#reply + 1] = value or ''
end
local bytes = 0
for _, ref in ipairs(ARGV) do
  local record = redis.call('HMGET', delivery_key(tag, ref), 'st', 'at', 'ca', 'nr')
  local entry_id = string.match(ref, '^(%d+%-%d+):')
  local entry = entry_id and redis.call('XRANGE', event_log, entry_id, entry_id)[1]
  local fields = entry and entry[2] or {}
  add(ref)
  for i = 1, 4 do
    add(record[i])
  end
  add(tostring(#fields / 2))
  for i = 1, #fields do
    add(fields[i])
  end
  bytes = bytes + entry_bytes(fields)
  if bytes >= STREAM_BYTES then
    break
  end
end
return reply
