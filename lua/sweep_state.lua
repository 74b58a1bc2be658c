#!lua flags=no-writes
-- sweep_state: who sweeps a partition, and what is due there.
--
-- KEYS[1]   lease          string, the token of the instance that sweeps the partition
-- KEYS[2]   ttl_index      zset, score = reclaim deadline in ms
-- RETURNS   STATE now_ms holder lapses_in_ms indexed due oldest_due_ms next_deadline_ms quarantined
-- BOUND     two entries of the index
-- EMITS     nothing
-- @include  keys, now_ms
--
-- holder, oldest_due_ms and next_deadline_ms are empty where there is none.
local lease, ttl_index = KEYS[1], KEYS[2]

local now = now_ms()
local function first_score(from, to)
  return redis.call('ZRANGEBYSCORE', ttl_index, from, to, 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
end
local due = redis.call('ZCOUNT', ttl_index, '-inf', '(' .. ms_text(now))
local quarantined = redis.pcall('HLEN', quarantine_key(tag_of_key(ttl_index)))
return { 'STATE', ms_text(now), redis.call('GET', lease) or '', tostring(redis.call('PTTL', lease)),
  tostring(redis.call('ZCARD', ttl_index)), tostring(due), due > 0 and first_score('-inf', '+inf') or '',
  first_score(ms_text(now), '+inf'), tostring(tonumber(quarantined) or 0) }
