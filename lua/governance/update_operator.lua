#!lua
-- update_operator: give an operator another role, and tell every instance to look up its keys again.
--
-- KEYS[1]   operator         hash
-- ARGV[1]   role
-- ARGV[2]   channel          pub/sub channel for the hashes of keys that instances must look up again
-- ARGV[3]   actor            admin
-- ARGV[4]   key_id           who acts
-- ARGV[5]   request_id
-- ARGV[6]   trace            trace id and flags, source address, user agent: see lib/audit_log
-- RETURNS   UPDATED now_ms record{} | NOT_FOUND | ALREADY_REVOKED
-- BOUND     one operator
-- EMITS     nothing
-- @include  audit_log, keys, operator_record, time
local operator = KEYS[1]
local role, channel = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }

local tag = keys.tag_of(operator)

local record = operator_record.read_operator(operator)
if not record then
  return { 'NOT_FOUND' }
end
if record.status == 'REVOKED' then
  return { 'ALREADY_REVOKED' }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', operator, 'role', role)
audit_log.append_audit(tag, 'updateOperator', 200, '__system__', 'operator', record.name, origin,
  { 'previous_role', record.role, 'role', role })
redis.call('PUBLISH', channel, record.secret_hash)
if record.previous_hash then
  redis.call('PUBLISH', channel, record.previous_hash)
end
return { 'UPDATED', time.ms_text(time.now_ms()), unpack(redis.call('HGETALL', operator)) }
