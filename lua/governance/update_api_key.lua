#!lua
-- update_api_key: change the permissions or the description of a key. Its secret and its expiry do not change.
--
-- KEYS[1]   api_key          hash
-- ARGV[1]   api_key_id
-- ARGV[2]   channel          pub/sub channel for the hash of the secret; every instance then reads the key's
--           permissions again
-- ARGV[3-6] origin           actor is admin
-- ARGV[...] field and value pairs of the record: name, description, permissions, scope_filter, metadata
-- RETURNS   UPDATED now_ms record{} | NOT_FOUND | TENANT_CLOSED | ALREADY_REVOKED | KEY_EXPIRED
-- BOUND     one key
-- EMITS     api_key.permissions_changed
-- @include  api_key_record, audit_log, event_writer, keys, tenant_state, time
local api_key = KEYS[1]
local key_id, channel = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }
local first_field = 7
local RIGHTS = { permissions = true, scope_filter = true }

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
if record.expires_at <= now then
  return { 'KEY_EXPIRED' }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local changes, changed, rights_changed, permissions = {}, {}, false, record.permissions
for i = first_field, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', api_key, field) ~= value then
    changes[#changes + 1] = field
    changes[#changes + 1] = value
    changed[#changed + 1] = field
    rights_changed = rights_changed or RIGHTS[field]
    permissions = field == 'permissions' and value or permissions
  end
end
if #changes > 0 then
  redis.call('HSET', api_key, unpack(changes))
  audit_log.append_audit(tag, 'updateApiKey', 200, record.tenant, 'api_key', key_id, origin,
    { 'changed_fields', table.concat(changed, ',') })
end
if rights_changed then
  event_writer.append_event(tag, 'api_key.permissions_changed', record.tenant, nil, origin,
    { 'key_id', key_id, 'key_name', record.name, 'previous_status', 'ACTIVE', 'new_status', 'ACTIVE', 'permissions',
    permissions })
  redis.call('PUBLISH', channel, record.secret_hash)
end
return { 'UPDATED', time.ms_text(now), unpack(redis.call('HGETALL', api_key)) }
