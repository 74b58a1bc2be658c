#!lua
-- update_operator: give an operator another role or other tenants, and tell every instance to look up its keys again.
--
-- KEYS[1]   operator         hash
-- ARGV[1]   role             or empty to keep it
-- ARGV[2]   tenants          as create_operator has them, or empty to keep them
-- ARGV[3]   channel          pub/sub channel for the hashes of keys that instances must look up again
-- ARGV[4-7] origin           actor is admin
-- RETURNS   UPDATED now_ms record{} | NOT_FOUND | ALREADY_REVOKED
-- BOUND     one operator
-- EMITS     nothing
-- @include  audit_log, keys, operator_record, time
local operator = KEYS[1]
local role, tenants, channel = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[4], key = ARGV[5], request = ARGV[6], trace = ARGV[7] }

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
local changed = {}
for field, value in pairs({ role = role, tenants = tenants }) do
  if value ~= '' then
    redis.call('HSET', operator, field, value)
    changed[#changed + 1], changed[#changed + 2] = 'previous_' .. field, record[field]
    changed[#changed + 1], changed[#changed + 2] = field, value
  end
end
audit_log.append_audit(tag, 'updateOperator', 200, '__system__', 'operator', record.name, origin, changed)
operator_record.announce(channel, record)
return { 'UPDATED', time.ms_text(time.now_ms()), unpack(redis.call('HGETALL', operator)) }
