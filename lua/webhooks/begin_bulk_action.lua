#!lua
-- begin_bulk_action: claim an idempotency key for an action on many things, or find what was begun under it.
--
-- KEYS[1]   bulk             hash, the record of this action
-- ARGV[1]   fingerprint      of the canonical request
-- ARGV[2]   keep_ms          how long a repetition is answered with the first response
-- ARGV[3]   correlation_id   under which every change is told
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags
-- ARGV[6]   ids              what the filter matched, a comma list
-- RETURNS   BEGUN correlation_id request_id trace? ids? | ENDED response | IDEMPOTENCY_MISMATCH
-- BOUND     one record; the ids are as many as one bulk action takes
-- EMITS     nothing
--
-- Whoever repeats a request whose process died goes on with the things and the correlation of the first attempt, and so may
-- several at once: each thing remembers that it was changed. Fields: fp fingerprint, co, rq, tr, ids, rs response.
local bulk = KEYS[1]
local fingerprint, keep_ms, correlation_id, request_id, trace, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local known = redis.call('HMGET', bulk, 'fp', 'co', 'rq', 'tr', 'ids', 'rs')
if known[1] and known[1] ~= fingerprint then
  return { 'IDEMPOTENCY_MISMATCH' }
end
if known[6] then
  return { 'ENDED', known[6] }
end
if known[1] then
  return { 'BEGUN', known[2], known[3], known[4], known[5] }
end

-- Nothing is refused below this line.
redis.call('HSET', bulk, 'fp', fingerprint, 'co', correlation_id, 'rq', request_id, 'tr', trace, 'ids', ids)
redis.call('PEXPIRE', bulk, keep_ms)
return { 'BEGUN', correlation_id, request_id, trace, ids }
