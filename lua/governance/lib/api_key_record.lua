-- api_key_record: the record of one API key, a hash.
--
-- Fields: tenant_id, name, description, key_prefix, secret_hash (SHA-256, base64url), permissions and scope_filter
-- (JSON lists as text, which no script reads), status ACTIVE or REVOKED, created_at, expires_at, revoked_at (ms),
-- revoked_reason, metadata (JSON), last_used_at (ms, to the minute), evidence_references (false if answers to this key
-- have no references to their evidence).
-- A key is EXPIRED from expires_at on, without a write to its record.
-- An invalid record fails closed: the script ends with an error and writes nothing.
local USE_NOTED_EVERY_MS = 60000
local API_KEY_STATUS = { ACTIVE = true, REVOKED = true }

-- Returns the record as a table, or nil if it does not exist.
local function read_api_key(key)
  local fields = redis.call('HMGET', key, 'tenant_id', 'status', 'expires_at', 'secret_hash', 'permissions',
    'scope_filter', 'name', 'last_used_at', 'evidence_references')
  if not fields[1] and not fields[2] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  local expires_at = tonumber(fields[3] or '')
  if not fields[1] or not API_KEY_STATUS[fields[2]] or not expires_at or not fields[4] or not fields[5]
    or not fields[6] then
    error('corrupt API key record ' .. key)
  end
  return {
    tenant = fields[1], status = fields[2], expires_at = expires_at, secret_hash = fields[4],
    permissions = fields[5], scope_filter = fields[6], name = fields[7],
    last_used_at = tonumber(fields[8] or '') or 0, references_evidence = fields[9] ~= 'false',
  }
end

-- Whether the last use that the record has is less than a minute old.
local function use_is_noted(record, now)
  return now - record.last_used_at < USE_NOTED_EVERY_MS
end

return { read_api_key = read_api_key, use_is_noted = use_is_noted }
