#!lua flags=allow-oom
-- lease_announce: announce that an instance shares in leased work, and return how many instances do and its place among
-- them.
-- allow-oom: sweep and dispatch must continue when Redis is full.
--
-- KEYS[1]   instances      zset of instances, score = when the announcement expires, in ms
-- KEYS[2]   reports        hash, maps each instance to what it reports about itself
-- ARGV[1]   instance
-- ARGV[2]   lease_ms       how long the announcement is valid
-- ARGV[3]   report         JSON, not read here
-- RETURNS   ALIVE now_ms alive:int place:int next_lapse_in_ms?
-- BOUND     the instances of one deployment
-- EMITS     nothing
-- @include  time
--
-- place counts from 0 in the order of the names, so that all instances agree on who takes the odd partitions.
-- next_lapse_in_ms is that of the other announcements, empty if there are none. Expired announcements are removed.
local instances, reports = KEYS[1], KEYS[2]
local instance, lease_ms, report = ARGV[1], ARGV[2], ARGV[3]

local LAPSED_A_RUN = 100

local now = time.now_ms()
for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', instances, '-inf', time.ms_text(now), 'LIMIT', 0, LAPSED_A_RUN)) do
  redis.call('ZREM', instances, lapsed)
  redis.call('HDEL', reports, lapsed)
end
redis.call('ZADD', instances, time.ms_text(now + lease_ms), instance)
redis.call('HSET', reports, instance, report)

local place, next_lapse, alive = 0, '', redis.call('ZRANGE', instances, 0, -1, 'WITHSCORES')
for i = 1, #alive, 2 do
  if alive[i] < instance then
    place = place + 1
  end
  if next_lapse == '' and alive[i] ~= instance then
    next_lapse = time.ms_text(tonumber(alive[i + 1]) - now)
  end
end
return { 'ALIVE', time.ms_text(now), tostring(#alive / 2), tostring(place), next_lapse }
