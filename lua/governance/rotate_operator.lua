#!lua
-- rotate_operator: give an operator a new key. The one before still works for a while.
--
-- KEYS[1]   operator         hash
-- KEYS[2]   operator_secret  string, maps the hash of the new key to the operator's name
-- ARGV[1]   hash             SHA-256 of the new key, base64url
-- ARGV[2]   key_prefix
-- ARGV[3]   overlap_ms       how long the key before still works; 0 ends it at once
-- ARGV[4]   expires_at_ms    of the new key, or empty for that of the one before
-- ARGV[5]   channel          pub/sub channel for the hashes of keys that instances must look up again
-- ARGV[6-9] origin           actor is admin
-- RETURNS   ROTATED now_ms record{} | NOT_FOUND | ALREADY_REVOKED | EXPIRED | EXPIRES_IN_PAST
-- BOUND     one operator
-- EMITS     nothing
-- @include  audit_log, keys, operator_record, time
--
-- There are at most two keys: a rotation during an overlap ends the older of them. An operator that has expired stays
-- so: a rotation keeps somebody's key safe, and must not bring back whose time is over.
local operator, operator_secret = KEYS[1], KEYS[2]
local hash, key_prefix, overlap_ms, expires_at, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]),
  tonumber(ARGV[4]), ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }

local tag = keys.tag_of(operator)
local now = time.now_ms()

local record = operator_record.read_operator(operator)
if not record then
  return { 'NOT_FOUND' }
end
if record.status == 'REVOKED' then
  return { 'ALREADY_REVOKED' }
end
if record.expires_at <= now then
  return { 'EXPIRED' }
end
if expires_at and expires_at <= now then
  return { 'EXPIRES_IN_PAST' }
end
if redis.call('EXISTS', operator_secret) ~= 0 then
  error('the random key of an operator exists already')
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local previous_until = math.min(record.expires_at, now + overlap_ms)
redis.call('HSET', operator, 'secret_hash', hash, 'key_prefix', key_prefix, 'rotated_at', time.ms_text(now),
  'previous_hash', record.secret_hash, 'previous_until', time.ms_text(previous_until))
if expires_at then
  redis.call('HSET', operator, 'expires_at', time.ms_text(expires_at))
end
redis.call('SET', operator_secret, record.name)
if record.previous_hash then
  redis.call('UNLINK', keys.operator_secret(tag, record.previous_hash))
end
operator_record.announce(channel, record)
audit_log.append_audit(tag, 'rotateOperator', 200, '__system__', 'operator', record.name, origin,
  { 'overlap_ms', ARGV[3] })
return { 'ROTATED', time.ms_text(now), unpack(redis.call('HGETALL', operator)) }
