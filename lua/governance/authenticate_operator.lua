#!lua flags=no-writes
-- authenticate_operator: find the operator of a key, and check that the key is valid.
--
-- KEYS[1]   operator_secret  string, the name of the operator whose key has this hash
-- ARGV[1]   hash             SHA-256 of the key, base64url
-- RETURNS   OK operator role tenants expires_in_ms | UNKNOWN | REVOKED | EXPIRED
-- BOUND     one record
-- EMITS     nothing
-- @include  keys, operator_record, time
--
-- expires_in_ms is at most a day: nobody may rely on the answer for longer.
local operator_secret = KEYS[1]
local hash = ARGV[1]
local LONGEST_MS = 86400000

local name = redis.call('GET', operator_secret)
if not name then
  return { 'UNKNOWN' }
end
local record = operator_record.read_operator(keys.operator(keys.tag_of(operator_secret), name))
if not record then
  error('the operator ' .. name .. ' has a key but no record')
end
if record.status == 'REVOKED' then
  return { 'REVOKED' }
end
-- The key before a rotation ends with its overlap, and never later than the one that took its place.
local ends_at = record.expires_at
if hash ~= record.secret_hash then
  ends_at = hash == record.previous_hash and math.min(ends_at, record.previous_until) or 0
end
local left_ms = ends_at - time.now_ms()
if left_ms <= 0 then
  return { 'EXPIRED' }
end
return { 'OK', record.name, record.role, record.tenants, time.ms_text(math.min(left_ms, LONGEST_MS)) }
