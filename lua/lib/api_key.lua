-- api_key: the record of one API key, a hash.
--
-- Fields: tenant_id, name, description, key_prefix, secret_hash (SHA-256, base64url), permissions and scope_filter (JSON lists as
-- text, which no script reads), status ACTIVE or REVOKED, created_at, expires_at, revoked_at (ms), revoked_reason, metadata (JSON).
-- A key is EXPIRED from expires_at on, without a write to its record.
-- An invalid record fails closed: the script ends with an error and writes nothing.
local API_KEY_STATUS = { ACTIVE = true, REVOKED = true }

-- Returns the record as a table, or nil if it does not exist.
local function read_api_key(key)
  local fields = redis.call('HMGET', key, 'tenant_id', 'status', 'expires_at', 'secret_hash', 'permissions', 'scope_filter', 'name')
  if not fields[1] and not fields[2] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  local expires_at = tonumber(fields[3] or '')
  if not fields[1] or not API_KEY_STATUS[fields[2]] or not expires_at or not fields[4] or not fields[5] or not fields[6] then
    error('corrupt API key record ' .. key)
  end
  return {
    tenant = fields[1], status = fields[2], expires_at = expires_at, secret_hash = fields[4],
    permissions = fields[5], scope_filter = fields[6], name = fields[7],
  }
end
