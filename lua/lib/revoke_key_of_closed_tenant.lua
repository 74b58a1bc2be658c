-- revoke_key_of_closed_tenant: what becomes of the API keys of a closed tenant: CASCADE SEMANTICS, Rule 1, of
-- cycles-governance-admin-v0.1.25. A thing that has come to its end is passed over, so the cascade may be started over at any time,
-- and several may run at once.
-- @include keys: api_key_key
-- @include now_ms: ms_text
-- @include api_key: read_api_key
-- @include append_event: append_event
-- @include append_audit: append_audit

-- Revokes an API key and has every instance forget it. Returns 'REVOKED', 'FAILED', or nil when it is of no use already.
local function revoke_key_of_closed_tenant(tag, tenant_id, key_id, now, channel, origin)
  local key = api_key_key(tag, key_id)
  local readable, record = pcall(read_api_key, key)
  if not readable or not record then
    return 'FAILED'
  end
  if record.status ~= 'ACTIVE' or record.expires_at <= now then
    return nil
  end
  redis.call('HSET', key, 'status', 'REVOKED', 'revoked_at', ms_text(now), 'revoked_reason', 'tenant_closed')
  local figures = { 'key_id', key_id, 'name', record.name, 'prior_status', 'ACTIVE', 'new_status', 'REVOKED', 'cascade_reason', 'tenant_closed' }
  append_event(tag, 'api_key.revoked_via_tenant_cascade', tenant_id, nil, origin, figures)
  append_audit(tag, 'api_key.revoked_via_tenant_cascade', 200, tenant_id, 'api_key', key_id, origin, figures)
  redis.call('PUBLISH', channel, record.secret_hash)
  return 'REVOKED'
end
