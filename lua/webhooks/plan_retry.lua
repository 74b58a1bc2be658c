#!lua
-- plan_retry: note in the index that a delivery will be tried again, before settle_delivery takes it out of its ordered queue.
-- It does not carry allow-oom: a full Redis takes no more retries, and a delivery that failed stays first in its queue meanwhile.
--
-- KEYS[1]   delivery      hash
-- ARGV[1]   ref
-- ARGV[2]   retry_in_ms
-- RETURNS   PLANNED now_ms | ENDED now_ms
-- BOUND     one delivery
-- EMITS     nothing
-- @include  keys: tag_of_key, retrying_key
-- @include  now_ms: now_ms, ms_text
--
-- The instant is written anew when the delivery is settled. Until then the record says PENDING, and the index alone starts no attempt.
local delivery = KEYS[1]
local ref, retry_in_ms = ARGV[1], tonumber(ARGV[2])

local tag = tag_of_key(delivery)
local now = now_ms()
local status = redis.call('HGET', delivery, 'st')
redis.call('ZCARD', retrying_key(tag))
if status ~= 'PENDING' and status ~= 'RETRYING' then
  return { 'ENDED', ms_text(now) }
end

-- Nothing is refused below this line.
redis.call('ZADD', retrying_key(tag), ms_text(now + retry_in_ms), ref)
return { 'PLANNED', ms_text(now) }
