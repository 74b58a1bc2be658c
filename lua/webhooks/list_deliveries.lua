#!lua flags=no-writes
-- list_deliveries: the matching deliveries of a subscription, newest first, in one bounded page of a partition's index.
-- Deliveries created in the same millisecond are ordered by their events, latest first.
--
-- KEYS[1]   delivery_index   sorted set of the subscription's deliveries, score = creation time in ms
-- ARGV[1]   from_ms          bounds of the creation time, both inclusive, or -inf
-- ARGV[2]   to_ms            or +inf
-- ARGV[3]   after_ms         creation time of the delivery after which the page starts, or empty
-- ARGV[4]   after_ref        its ref
-- ARGV[5]   status           return only these, or empty for all
-- ARGV[6]   examine          maximum entries to examine
-- ARGV[7]   limit            maximum deliveries to return
-- RETURNS   next_ms? next_ref? examined:int deliveries(ref created_ms text_count record{})*
-- BOUND     examine entries, and twice the deliveries of one millisecond, about as many as one run of queue_deliveries
--           creates
-- EMITS     nothing
-- @include  index_walk, keys
--
-- next_ms and next_ref are empty at the end.
-- Entries whose record has expired are skipped. One that is no record is returned without fields. The index orders
-- entries of the same millisecond by their bytes, which puts the tenth event of a millisecond before the ninth. So this
-- script reads all entries of a millisecond together and sorts them. There are few more of them than one script queues.
local delivery_index = KEYS[1]
local from_ms, to_ms, after_ms, after_ref, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local examine, limit = tonumber(ARGV[6]), tonumber(ARGV[7])

local tag = keys.tag_of(delivery_index)

-- A ref starts with the id of its event: its time in ms and its number within that millisecond.
local function place_of(ref, created_ms)
  local event_ms, number = string.match(ref, '^(%d+)-(%d+):')
  return { ref = ref, created_ms = created_ms, at = tonumber(created_ms), event_ms = tonumber(event_ms) or 0,
    number = tonumber(number) or 0 }
end

local function is_newer(a, b)
  if a.at ~= b.at then
    return a.at > b.at
  end
  if a.event_ms ~= b.event_ms then
    return a.event_ms > b.event_ms
  end
  if a.number ~= b.number then
    return a.number > b.number
  end
  return index_walk.bytes_less(b.ref, a.ref)
end

-- The places after `after`, never part of a millisecond: at least as many as a run examines, or all that are left.
local function places_behind(after)
  local places = {}
  local function add(page)
    for i = 1, #page, 2 do
      local place = place_of(page[i], page[i + 1])
      if not after or is_newer(after, place) then
        places[#places + 1] = place
      end
    end
  end
  local newest = to_ms
  if after then
    add(redis.call('ZRANGEBYSCORE', delivery_index, after_ms, after_ms, 'WITHSCORES'))
    newest = '(' .. after_ms
  end
  local page = redis.call('ZREVRANGEBYSCORE', delivery_index, newest, from_ms, 'WITHSCORES', 'LIMIT', 0, examine)
  if #page == 2 * examine then
    page = redis.call('ZREVRANGEBYSCORE', delivery_index, newest, page[#page], 'WITHSCORES')
  end
  add(page)
  table.sort(places, is_newer)
  return places
end

local reply, rows, examined = { '', '', '' }, 0, 0
for _, place in ipairs(places_behind(after_ms ~= '' and place_of(after_ref, after_ms) or nil)) do
  local fields, found_status = redis.pcall('HGETALL', keys.delivery(tag, place.ref)), nil
  if fields.err then
    fields, found_status = {}, status
  end
  for i = 1, #fields, 2 do
    if fields[i] == 'st' then
      found_status = fields[i + 1]
    end
  end
  examined = examined + 1
  if found_status and (status == '' or status == found_status) then
    reply[#reply + 1] = place.ref
    reply[#reply + 1] = place.created_ms
    local count_at = #reply + 1
    reply[count_at] = '0'
    for i = 1, #fields, 2 do
      -- The text of an answer is long, and no list shows it.
      if fields[i] ~= 'ab' then
        reply[#reply + 1], reply[#reply + 2] = fields[i], fields[i + 1]
      end
    end
    reply[count_at] = tostring(#reply - count_at)
    rows = rows + 1
  end
  if rows == limit or examined == examine then
    reply[1], reply[2] = place.created_ms, place.ref
    break
  end
end
reply[3] = tostring(examined)
return reply
