#!lua flags=no-writes
-- authenticate: find the owner of an API key, and check that the key is valid.
--
-- KEYS[1]   secret_hash      string, the id of the key whose secret has this hash
-- RETURNS   OK key_id tenant_id expires_in_ms permissions scope_filter references_evidence:flag use_noted:flag
--           | UNKNOWN | REVOKED | EXPIRED | TENANT_SUSPENDED
-- BOUND     three records, of which only small fields are read
-- EMITS     nothing
-- @include  api_key_record, keys, tenant_state, time
--
-- A key of a closed tenant that is not revoked passes, so that the operation itself can return TENANT_CLOSED. A tenant
-- without a record has no status to check: its keys work. This script writes nothing, so that a Redis that cannot write
-- still answers reads; if use_noted is 0, the caller calls note_key_use.
local secret_hash = KEYS[1]

local tag = keys.tag_of(secret_hash)

local key_id = redis.call('GET', secret_hash)
if not key_id then
  return { 'UNKNOWN' }
end
local record = api_key_record.read_api_key(keys.api_key(tag, key_id))
if not record then
  error('the API key ' .. key_id .. ' has a secret but no record')
end
if record.status == 'REVOKED' then
  return { 'REVOKED' }
end
local now = time.now_ms()
local expires_in_ms = record.expires_at - now
if expires_in_ms <= 0 then
  return { 'EXPIRED' }
end
local tenant = tenant_state.read_tenant(keys.tenant(tag, record.tenant))
if tenant and tenant.status == 'SUSPENDED' then
  return { 'TENANT_SUSPENDED' }
end
return {
  'OK', key_id, record.tenant, time.ms_text(expires_in_ms), record.permissions, record.scope_filter,
  record.references_evidence and '1' or '0', api_key_record.use_is_noted(record, now) and '1' or '0',
}
