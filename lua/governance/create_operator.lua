#!lua
-- create_operator: create a named operator with its first key. Only the hash of the key is stored.
--
-- KEYS[1]   operator         hash, created by this script
-- KEYS[2]   operator_secret  string, maps the hash of the key to the operator's name
-- KEYS[3]   operator_index   sorted set of all operators' names, all scores 0
-- ARGV[1]   name
-- ARGV[2]   role
-- ARGV[3]   hash             SHA-256 of the key, base64url
-- ARGV[4]   key_prefix
-- ARGV[5]   expires_at_ms    or empty for a key that does not expire
-- ARGV[6]   tenants          that it is confined to: see lib/operator_record
-- ARGV[7-10] origin           actor is admin
-- RETURNS   CREATED now_ms record{} | NAME_TAKEN | EXPIRES_IN_PAST
-- BOUND     one operator
-- EMITS     nothing
-- @include  audit_log, keys, time
--
-- A name is never given twice, so that audit rows and events always mean the same operator.
local operator, operator_secret, operator_index = KEYS[1], KEYS[2], KEYS[3]
local name, role, hash, key_prefix, expires_at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local tenants = ARGV[6]
local origin = { actor = ARGV[7], key = ARGV[8], request = ARGV[9], trace = ARGV[10] }

local tag = keys.tag_of(operator)
local now = time.now_ms()

if redis.call('EXISTS', operator) ~= 0 then
  return { 'NAME_TAKEN' }
end
if expires_at and expires_at <= now then
  return { 'EXPIRES_IN_PAST' }
end
if redis.call('EXISTS', operator_secret) ~= 0 then
  error('the random key of a new operator exists already')
end
audit_log.require_audit_log(tag)
-- Fails here if the index is damaged.
redis.call('ZCARD', operator_index)

-- Nothing is refused below this line.
redis.call('HSET', operator, 'name', name, 'role', role, 'tenants', tenants, 'status', 'ACTIVE', 'secret_hash', hash,
  'key_prefix', key_prefix, 'created_at', time.ms_text(now))
if expires_at then
  redis.call('HSET', operator, 'expires_at', time.ms_text(expires_at))
end
redis.call('SET', operator_secret, name)
redis.call('ZADD', operator_index, 0, name)
audit_log.append_audit(tag, 'createOperator', 201, '__system__', 'operator', name, origin,
  { 'role', role, 'tenants', tenants })
return { 'CREATED', time.ms_text(now), unpack(redis.call('HGETALL', operator)) }
