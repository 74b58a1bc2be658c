#!lua flags=allow-oom
-- emit_store_outage: emit the events of a Redis outage once, however many instances saw it.
-- allow-oom: outages are also reported when Redis is full.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   outage         string, when the last instance that saw the last outage reported it, in ms
-- ARGV[1]   lost_at_ms     when the instance lost its connection, by the time of scripts
-- ARGV[2]   outage_ms      how long it had none
-- RETURNS   EMITTED | SAME
-- BOUND     two events
-- EMITS     system.store_connection_lost, system.store_connection_restored
-- @include  event_writer, keys, time
--
-- Overlapping outages count as one.
local event_log, outage = KEYS[1], KEYS[2]
local lost_at, outage_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

local tag = keys.tag_of(event_log)
local now = time.now_ms()
local announced_until = tonumber(redis.call('GET', outage) or '-1')
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
redis.call('SET', outage, time.ms_text(math.max(now, announced_until)))
if lost_at <= announced_until then
  return { 'SAME' }
end
local origin = { actor = 'system' }
event_writer.append_event(tag, 'system.store_connection_lost', '__system__', nil, origin,
  { 'component', 'store', 'message', 'the connection to Redis was lost', 'severity', 'critical', 'lost_at',
  time.ms_text(lost_at) })
event_writer.append_event(tag, 'system.store_connection_restored', '__system__', nil, origin,
  { 'component', 'store', 'message', 'the connection to Redis is back', 'severity', 'info', 'lost_at',
  time.ms_text(lost_at),
    'restored_at', time.ms_text(lost_at + outage_ms), 'outage_ms', time.ms_text(outage_ms) })
return { 'EMITTED' }
