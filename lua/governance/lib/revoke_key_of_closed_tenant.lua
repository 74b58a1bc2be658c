-- revoke_key_of_closed_tenant: revokes the API keys of a closed tenant.
-- Implements CASCADE SEMANTICS, Rule 1, of cycles-governance-admin-v0.1.25. Keys that are already revoked or expired
-- are skipped, so the cascade may start over at any time, and several may run concurrently.
-- @include api_key_record, audit_log, event_writer, keys, time

-- Revokes an API key and tells every instance to drop it. Returns 'REVOKED', 'FAILED' if the record is missing or
-- invalid, or nil if the key is already revoked or expired.
local function revoke_key_of_closed_tenant(tag, tenant_id, key_id, now, channel, origin)
  local key = keys.api_key(tag, key_id)
  local readable, record = pcall(api_key_record.read_api_key, key)
  if not readable or not record then
    return 'FAILED'
  end
  if record.status ~= 'ACTIVE' or record.expires_at <= now then
    return nil
  end
  redis.call('HSET', key, 'status', 'REVOKED', 'revoked_at', time.ms_text(now), 'revoked_reason', 'tenant_closed')
  local figures = { 'key_id', key_id, 'name', record.name, 'prior_status', 'ACTIVE', 'new_status', 'REVOKED',
    'cascade_reason', 'tenant_closed' }
  event_writer.append_event(tag, 'api_key.revoked_via_tenant_cascade', tenant_id, nil, origin, figures)
  audit_log.append_audit(tag, 'api_key.revoked_via_tenant_cascade', 200, tenant_id, 'api_key', key_id, origin, figures)
  redis.call('PUBLISH', channel, record.secret_hash)
  return 'REVOKED'
end

return revoke_key_of_closed_tenant
