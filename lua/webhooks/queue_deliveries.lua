#!lua flags=allow-oom
-- queue_deliveries: create the deliveries of a batch of events, push them to their queues, and acknowledge the events,
-- in one run.
-- allow-oom: events must reach their subscribers when Redis is full.
--
-- KEYS[1]   lease          string, the token of the instance that dispatches the partition
-- KEYS[2]   event_log      stream
-- ARGV[1]   token
-- ARGV[2]   retention_ms   how long a delivery's record stays
-- ARGV[3]   event_count
-- ARGV[...] the entry ids of the events that need no more deliveries, then for each delivery: entry id, subscription
--           id, tenant, event type, trace
-- RETURNS   QUEUED now_ms made? forgotten:int | NOT_HELD
-- BOUND     the given events and deliveries (at most 250 and 50); twice as many index entries, and 8 for each
--           subscription
-- EMITS     nothing
-- @include  delivery_record, dispatch_group, keys, time
--
-- made lists, separated by spaces, the length of its queue for each delivery that was created, and 0 for each that
-- existed, so repeating a batch is harmless. The script checks the lease, so that an instance that lost it cannot queue
-- its events behind those of the next holder.
-- forgotten counts the removed index entries of deliveries whose records have expired.
local lease, event_log = KEYS[1], KEYS[2]
local token, retention_ms, event_count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local first_event = 4
local first_delivery, fields_each = first_event + event_count, 5

if redis.call('GET', lease) ~= token then
  return { 'NOT_HELD' }
end
local tag = keys.tag_of(event_log)
local now = time.now_ms()
redis.call('XLEN', event_log)
local checked, given = {}, {}
for i = first_delivery, #ARGV, fields_each do
  local queue = ARGV[i + 1] .. ':' .. ARGV[i + 2]
  if not checked[queue] then
    checked[queue] = true
    delivery_record.require_delivery_keys(tag, ARGV[i + 1], queue)
  end
  given[ARGV[i + 1]] = (given[ARGV[i + 1]] or 0) + 1
end

-- Nothing is refused below this line.
local made = {}
for i = first_delivery, #ARGV, fields_each do
  local length = delivery_record.create_delivery(tag, {
    ref = ARGV[i] .. ':' .. ARGV[i + 1], subscription = ARGV[i + 1], tenant = ARGV[i + 2],
    event_type = ARGV[i + 3], trace = ARGV[i + 4],
    now = now, retention_ms = retention_ms,
  })
  made[#made + 1] = length or 0
end
local forgotten = 0
for subscription, count in pairs(given) do
  forgotten = forgotten + delivery_record.keep_index_short(tag, subscription, tonumber(retention_ms), count)
end
if event_count > 0 then
  redis.call('XACK', event_log, dispatch_group.DISPATCH_GROUP, unpack(ARGV, first_event, first_delivery - 1))
end
return { 'QUEUED', time.ms_text(now), table.concat(made, ' '), tostring(forgotten) }
