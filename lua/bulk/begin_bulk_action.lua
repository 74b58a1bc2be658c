#!lua
-- begin_bulk_action: claim an idempotency key for an action on many things, or find what was begun under it.
--
-- KEYS[1]   bulk             hash, the record of this action
-- ARGV[1]   fingerprint      of the canonical request
-- ARGV[2]   keep_ms          how long a repetition is answered with the first response
-- ARGV[3]   correlation_id   under which every change is told
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags
-- ARGV[6]   rows             what the filter matched, a comma list
-- ARGV[7]   claims           1 to claim a key that nobody used; 0 only to find what was begun
-- RETURNS   BEGUN correlation_id request_id trace? rows? | ENDED response | UNKNOWN | IDEMPOTENCY_MISMATCH
-- BOUND     one record; it names 500 rows of at most a kilobyte, or holds the response about them
-- EMITS     nothing
--
-- Whoever repeats a request whose process died goes on with the rows and the correlation of the first attempt, and so may
-- several at once: each row remembers that it was changed. Fields: fp fingerprint, co, rq, tr, ids the rows, rs response.
local bulk = KEYS[1]
local fingerprint, keep_ms, correlation_id, request_id, trace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local rows, claims = ARGV[6], ARGV[7] == '1'

local known = redis.call('HMGET', bulk, 'fp', 'rs')
if known[1] and known[1] ~= fingerprint then
  return { 'IDEMPOTENCY_MISMATCH' }
end
if known[2] then
  return { 'ENDED', known[2] }
end
if known[1] then
  return { 'BEGUN', unpack(redis.call('HMGET', bulk, 'co', 'rq', 'tr', 'ids')) }
end
if not claims then
  return { 'UNKNOWN' }
end

-- Nothing is refused below this line.
redis.call('HSET', bulk, 'fp', fingerprint, 'co', correlation_id, 'rq', request_id, 'tr', trace, 'ids', rows)
redis.call('PEXPIRE', bulk, keep_ms)
return { 'BEGUN', correlation_id, request_id, trace, rows }
