#!lua flags=allow-oom
-- begin_bulk_action: claim an idempotency key for a bulk action, or return the action that was begun with it.
-- allow-oom: operators must be able to stop tenants and subscriptions when Redis is full. The record is bounded and
-- expires.
--
-- KEYS[1]   bulk             hash, the record of this action
-- ARGV[1]   fingerprint      of the canonical request
-- ARGV[2]   keep_ms          how long a repeated request is answered with the first response
-- ARGV[3]   correlation_id   correlation id of every change
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags
-- ARGV[6]   rows             what the filter matched, comma-separated
-- ARGV[7]   claims           1 to claim an unused key; 0 only to find an action that was begun
-- RETURNS   BEGUN correlation_id request_id trace? rows? | ENDED response | UNKNOWN | IDEMPOTENCY_MISMATCH
-- BOUND     one record; it names 500 rows of at most a kilobyte, or holds the response about them
-- EMITS     nothing
--
-- A repeated request, after the process of the first one died, continues with the rows and the correlation id of the
-- first attempt. Several may do so at once: each row remembers that it was changed. Fields: fp fingerprint, co
-- correlation id, rq request id, tr trace, ids the rows, rs response.
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
