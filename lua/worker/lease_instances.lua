#!lua flags=no-writes
-- lease_instances: the instances that share leased work, and what each last reported about itself.
--
-- KEYS[1]   instances      zset of instances, score = when the announcement expires, in ms
-- KEYS[2]   reports        hash, maps each instance to what it reports about itself
-- RETURNS   INSTANCES now_ms instances(instance lapses_in_ms report)*
-- BOUND     the instances of one deployment
-- EMITS     nothing
-- @include  time
local instances, reports = KEYS[1], KEYS[2]

local now = time.now_ms()
local reply, alive = { 'INSTANCES', time.ms_text(now) },
  redis.call('ZRANGEBYSCORE', instances, '(' .. time.ms_text(now), '+inf', 'WITHSCORES')
for i = 1, #alive, 2 do
  reply[#reply + 1] = alive[i]
  reply[#reply + 1] = time.ms_text(tonumber(alive[i + 1]) - now)
  reply[#reply + 1] = redis.call('HGET', reports, alive[i]) or '{}'
end
return reply
