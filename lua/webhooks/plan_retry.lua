#!lua
-- plan_retry: add a delivery to the index of retries, before settle_delivery removes it from its ordered queue.
-- No allow-oom: a full Redis accepts no more retries, and a failed delivery stays first in its queue meanwhile.
--
-- KEYS[1]   delivery      hash
-- ARGV[1]   ref
-- ARGV[2]   retry_in_ms
-- RETURNS   PLANNED now_ms | ENDED now_ms
-- BOUND     one delivery
-- EMITS     nothing
-- @include  keys, time
--
-- settle_delivery updates the due time. Until then the record says PENDING, and the index entry alone starts no
-- attempt.
local delivery = KEYS[1]
local ref, retry_in_ms = ARGV[1], tonumber(ARGV[2])

local tag = keys.tag_of(delivery)
local now = time.now_ms()
local status = redis.call('HGET', delivery, 'st')
redis.call('ZCARD', keys.retrying(tag))
if status ~= 'PENDING' and status ~= 'RETRYING' then
  return { 'ENDED', time.ms_text(now) }
end

-- Nothing is refused below this line.
redis.call('ZADD', keys.retrying(tag), time.ms_text(now + retry_in_ms), ref)
return { 'PLANNED', time.ms_text(now) }
