#!lua flags=allow-oom
-- revoke_operator: end an operator's keys for good, and tell every instance to drop them from its cache.
-- allow-oom: a leaked key must be stopped even when Redis is full.
--
-- KEYS[1]   operator         hash
-- ARGV[1]   reason           or empty
-- ARGV[2]   channel          pub/sub channel for the hashes of keys that instances must look up again
-- ARGV[3-6] origin           actor is admin
-- RETURNS   REVOKED now_ms record{} | NOT_FOUND | ALREADY_REVOKED
-- BOUND     one operator
-- EMITS     nothing
-- @include  audit_log, keys, operator_record, time
--
-- The record stays, so that the name in audit rows can be looked up and is not given again.
local operator = KEYS[1]
local reason, channel = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }

local tag = keys.tag_of(operator)
local now = time.now_ms()

local record = operator_record.read_operator(operator)
if not record then
  return { 'NOT_FOUND' }
end
if record.status == 'REVOKED' then
  return { 'ALREADY_REVOKED' }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', operator, 'status', 'REVOKED', 'revoked_at', time.ms_text(now))
if reason ~= '' then
  redis.call('HSET', operator, 'revoked_reason', reason)
end
audit_log.append_audit(tag, 'revokeOperator', 200, '__system__', 'operator', record.name, origin, { 'reason', reason })
operator_record.announce(channel, record)
return { 'REVOKED', time.ms_text(now), unpack(redis.call('HGETALL', operator)) }
