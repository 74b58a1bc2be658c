#!lua flags=allow-oom
-- revoke_api_key: revoke a key permanently, and tell every instance to drop it from its cache.
-- allow-oom: a leaked key must be stopped even when Redis is full.
--
-- KEYS[1]   api_key          hash
-- ARGV[1]   api_key_id
-- ARGV[2]   reason           or empty
-- ARGV[3]   channel          pub/sub channel for the hash of the secret
-- ARGV[4-7] origin           actor is admin
-- RETURNS   REVOKED record{} | NOT_FOUND | TENANT_CLOSED | ALREADY_REVOKED
-- BOUND     one key
-- EMITS     api_key.revoked
-- @include  api_key_record, audit_log, event_writer, keys, tenant_state, time
--
-- The record stays for the audit log, and so does the entry that maps the secret's hash to it.
local api_key = KEYS[1]
local key_id, reason, channel = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[4], key = ARGV[5], request = ARGV[6], trace = ARGV[7] }

local tag = keys.tag_of(api_key)
local now = time.now_ms()

local record = api_key_record.read_api_key(api_key)
if not record then
  return { 'NOT_FOUND' }
end
local owner = tenant_state.read_tenant(keys.tenant(tag, record.tenant))
if owner and owner.status == 'CLOSED' then
  return { 'TENANT_CLOSED' }
end
if record.status == 'REVOKED' then
  return { 'ALREADY_REVOKED' }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', api_key, 'status', 'REVOKED', 'revoked_at', time.ms_text(now))
if reason ~= '' then
  redis.call('HSET', api_key, 'revoked_reason', reason)
end
event_writer.append_event(tag, 'api_key.revoked', record.tenant, nil, origin,
  { 'key_id', key_id, 'key_name', record.name, 'previous_status', record.expires_at > now and 'ACTIVE' or 'EXPIRED',
    'new_status', 'REVOKED', 'permissions', record.permissions })
audit_log.append_audit(tag, 'revokeApiKey', 200, record.tenant, 'api_key', key_id, origin,
  { 'name', record.name, 'reason', reason })
redis.call('PUBLISH', channel, record.secret_hash)
return { 'REVOKED', unpack(redis.call('HGETALL', api_key)) }
