#!lua flags=no-writes
-- list_deliveries: those deliveries of a subscription that match, newest first, a bounded stretch of a partition's index at a time.
-- Those of one instant come by their refs, which begin with the event's id, the latest first.
--
-- KEYS[1]   delivery_index   sorted set of the subscription's deliveries, score = creation time in ms
-- ARGV[1]   from_ms          bounds of the creation time, both inclusive, or -inf
-- ARGV[2]   to_ms            or +inf
-- ARGV[3]   after_ms         creation time of the delivery behind which the stretch begins, or empty
-- ARGV[4]   after_ref        and its ref
-- ARGV[5]   status           only these, or empty
-- ARGV[6]   examine          entries that a run looks at, at most
-- ARGV[7]   limit            deliveries that a run returns, at most
-- RETURNS   next_ms next_ref examined (ref created_ms field_count (field value)*)*, next_ms and next_ref being empty at the end
-- EMITS     nothing
-- @include  keys, index_walk
--
-- An entry whose record is gone by age stands for nothing.
local delivery_index = KEYS[1]
local from_ms, to_ms, after_ms, after_ref, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local examine, limit = tonumber(ARGV[6]), tonumber(ARGV[7])

local tag = tag_of_key(delivery_index)
local entries = reverse_stretch(delivery_index, from_ms, to_ms, after_ms, after_ref, examine)
local reply, rows, examined = { '', '', '' }, 0, 0
for i = 1, #entries, 2 do
  local ref, created_ms = entries[i], entries[i + 1]
  local fields = redis.call('HGETALL', delivery_key(tag, ref))
  local found_status
  for j = 1, #fields, 2 do
    if fields[j] == 'st' then
      found_status = fields[j + 1]
    end
  end
  examined = examined + 1
  if found_status and (status == '' or status == found_status) then
    reply[#reply + 1] = ref
    reply[#reply + 1] = created_ms
    reply[#reply + 1] = tostring(#fields)
    for j = 1, #fields do
      reply[#reply + 1] = fields[j]
    end
    rows = rows + 1
  end
  if rows == limit or examined == examine then
    reply[1], reply[2] = created_ms, ref
    break
  end
end
reply[3] = tostring(examined)
return reply
