#!lua
-- replay_events: queue some of a partition's events again for one subscription, in the given order.
--
-- KEYS[1]   event_log        stream
-- ARGV[1]   subscription_id
-- ARGV[2]   replay_id
-- ARGV[3]   retention_ms     how long a delivery's record stays
-- ARGV[...] entry ids of events
-- RETURNS   QUEUED forgotten:int taken:int deliveries(ref tenant)*
-- BOUND     the given events, until 256 KiB of them are read; twice as many entries of the subscription's index, and 8
-- EMITS     nothing
-- @include  delivery_record, keys, stream_walk, time
--
-- taken is how many of the events were examined: the first ones, at least one.
-- An event that has left the log since it was found is skipped. forgotten counts the removed index entries of
-- deliveries whose records have expired.
local event_log = KEYS[1]
local subscription_id, replay_id, retention_ms = ARGV[1], ARGV[2], ARGV[3]
local first_entry = 4

local tag = keys.tag_of(event_log)
local now = time.now_ms()
local deliveries, taken, bytes = {}, 0, 0
for i = first_entry, #ARGV do
  local entry = redis.call('XRANGE', event_log, ARGV[i], ARGV[i])[1]
  if entry then
    local event = { tr = '' }
    for j = 1, #entry[2], 2 do
      event[entry[2][j]] = entry[2][j + 1]
    end
    delivery_record.require_delivery_keys(tag, subscription_id, subscription_id .. ':' .. event.tn)
    deliveries[#deliveries + 1] = {
      ref = ARGV[i] .. ':' .. subscription_id .. ':' .. replay_id, subscription = subscription_id,
      tenant = event.tn, event_type = event.ty,
      trace = event.tr, now = now, retention_ms = retention_ms,
    }
    bytes = bytes + stream_walk.entry_bytes(entry[2])
  end
  taken = taken + 1
  if bytes >= stream_walk.STREAM_BYTES then
    break
  end
end

-- Nothing is refused below this line.
local reply = { 'QUEUED', '0', tostring(taken) }
for _, delivery in ipairs(deliveries) do
  delivery_record.create_delivery(tag, delivery)
  reply[#reply + 1] = delivery.ref
  reply[#reply + 1] = delivery.tenant
end
if #deliveries > 0 then
  reply[2] = tostring(delivery_record.keep_index_short(tag, subscription_id, tonumber(retention_ms), #deliveries))
end
return reply
