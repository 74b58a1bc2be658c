#!lua flags=allow-oom
-- emit_store_outage: tell of an outage of this store that an instance saw, once however many saw it.
-- It carries allow-oom because an outage is told also when Redis is full.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   outage         string, when the last outage that was told had ended for the last of those who saw it, in ms
-- ARGV[1]   outage_ms      how long the instance had no connection, until now
-- RETURNS   EMITTED | SAME
-- BOUND     two events
-- EMITS     system.store_connection_lost, system.store_connection_restored
-- @include  keys: tag_of_key
-- @include  now_ms: now_ms, ms_text
-- @include  append_event: append_event, require_event_log
--
-- Outages that overlap are one. The instance says how long it took, for its clock is not that of the store.
local event_log, outage = KEYS[1], KEYS[2]
local outage_ms = tonumber(ARGV[1])

local tag = tag_of_key(event_log)
local now = now_ms()
local lost_at = now - outage_ms
local told_until = tonumber(redis.call('GET', outage) or '-1')
require_event_log(tag)

-- Nothing is refused below this line.
redis.call('SET', outage, ms_text(math.max(now, told_until)))
if lost_at <= told_until then
  return { 'SAME' }
end
local origin = { actor = 'system' }
append_event(tag, 'system.store_connection_lost', '__system__', nil, origin,
  { 'component', 'store', 'message', 'the connection to Redis was lost', 'severity', 'critical', 'lost_at', ms_text(lost_at) })
append_event(tag, 'system.store_connection_restored', '__system__', nil, origin,
  { 'component', 'store', 'message', 'the connection to Redis is back', 'severity', 'info', 'lost_at', ms_text(lost_at),
    'restored_at', ms_text(now), 'outage_ms', ms_text(outage_ms) })
return { 'EMITTED' }
