-- operator_record: the record of one named operator, a hash.
--
-- Fields: name, role (admin, operator, viewer or metrics), tenants (ids, or how they begin, split by spaces; * for the
-- whole deployment), status ACTIVE or REVOKED, secret_hash (SHA-256 of the key, base64url), key_prefix, created_at,
-- expires_at (ms, absent if the key does not expire), rotated_at, previous_hash and previous_until (the key before the
-- last rotation, and until when it still works), revoked_at, revoked_reason.
-- An invalid record fails closed: the script ends with an error and writes nothing.
local OPERATOR_STATUS = { ACTIVE = true, REVOKED = true }

-- Returns the record as a table, or nil if it does not exist.
local function read_operator(key)
  local fields = redis.call('HMGET', key, 'name', 'role', 'status', 'secret_hash', 'expires_at', 'previous_hash',
    'previous_until', 'tenants')
  if not fields[1] and not fields[3] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  local expires_at, previous_until = math.huge, tonumber(fields[7] or '0')
  if fields[5] then
    expires_at = tonumber(fields[5])
  end
  if not fields[1] or not fields[2] or not OPERATOR_STATUS[fields[3]] or not fields[4] or not expires_at
    or not previous_until then
    error('corrupt operator record ' .. key)
  end
  return {
    name = fields[1], role = fields[2], status = fields[3], secret_hash = fields[4], expires_at = expires_at,
    previous_hash = fields[6] or nil, previous_until = previous_until,
    -- Operators of versions before 0.8 are not confined.
    tenants = fields[8] or '*',
  }
end

-- Tells every instance to look up the operator's keys again.
local function announce(channel, record)
  redis.call('PUBLISH', channel, record.secret_hash)
  if record.previous_hash then
    redis.call('PUBLISH', channel, record.previous_hash)
  end
end

return { announce = announce, read_operator = read_operator }
