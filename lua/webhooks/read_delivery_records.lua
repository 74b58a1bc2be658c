#!lua flags=no-writes
-- read_delivery_records: the stored records of some deliveries.
--
-- KEYS[1]   event_log      the event log of their partition
-- ARGV[...] refs of deliveries
-- RETURNS   records(ref text_count record{})*
-- BOUND     the given deliveries
-- EMITS     nothing
-- @include  keys
--
-- A record that does not exist has no fields. What is no record has its error, and none of the others.
local event_log = KEYS[1]

-- Those that an answer shows.
local FIELDS = { 'ty', 'st', 'at', 'ca', 'fa', 'co', 'nr', 'rs', 'rt', 'em', 'tr' }

local tag = keys.tag_of(event_log)
local reply = {}
for _, ref in ipairs(ARGV) do
  local values = redis.pcall('HMGET', keys.delivery(tag, ref), unpack(FIELDS))
  local count_at, count = #reply + 2, 0
  reply[count_at - 1], reply[count_at] = ref, '0'
  for i, name in ipairs(FIELDS) do
    if values[i] then
      reply[#reply + 1], reply[#reply + 2], count = name, values[i], count + 2
    end
  end
  if values.err then
    reply[#reply + 1], reply[#reply + 2], count = 'err', values.err, 2
  end
  reply[count_at] = tostring(count)
end
return reply
