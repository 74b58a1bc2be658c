#!lua
-- create_api_key: create an API key of a tenant. Only the hash of its secret is stored.
--
-- KEYS[1]   api_key          hash, created by this script
-- KEYS[2]   secret_hash      string, maps the hash of the secret to the key's id
-- KEYS[3]   api_key_index    sorted set of the tenant's keys, score = creation time in ms
-- KEYS[4]   tenant           hash of the owner
-- ARGV[1]   tenant_id
-- ARGV[2]   api_key_id       the new id
-- ARGV[3]   hash             SHA-256 of the secret, base64url
-- ARGV[4]   name
-- ARGV[5]   permissions      JSON list
-- ARGV[6]   scope_filter     JSON list
-- ARGV[7]   expires_at_ms    or empty for default_life_ms from now
-- ARGV[8]   default_life_ms
-- ARGV[9-12] origin           actor is admin
-- ARGV[13]  max_api_keys     the deployment's limit, 0 for none
-- ARGV[...] field and value pairs of the record: key_prefix, description, metadata
-- RETURNS   CREATED record{} | TENANT_NOT_FOUND | TENANT_CLOSED | EXPIRES_IN_PAST
--           | LIMIT_EXCEEDED limit allowed:int used:int
-- BOUND     one key
-- EMITS     api_key.created
-- @include  audit_log, event_writer, keys, owned_counts, tenant_state, time
local api_key, secret_hash, api_key_index, tenant = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tenant_id, key_id, hash, name, permissions, scope_filter = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local expires_at, default_life_ms = tonumber(ARGV[7]), tonumber(ARGV[8])
local origin = { actor = ARGV[9], key = ARGV[10], request = ARGV[11], trace = ARGV[12] }
local max_api_keys, first_field = ARGV[13], 14

local tag = keys.tag_of(api_key)
local now = time.now_ms()

local owner = tenant_state.read_tenant(tenant)
if not owner then
  return { 'TENANT_NOT_FOUND' }
end
if owner.status == 'CLOSED' then
  return { 'TENANT_CLOSED' }
end
expires_at = expires_at or now + default_life_ms
if expires_at <= now then
  return { 'EXPIRES_IN_PAST' }
end
local refusal = owned_counts.count_refusal(tag, tenant_id, 'api_keys', max_api_keys, api_key_index)
if refusal then
  return refusal
end
if redis.call('EXISTS', api_key, secret_hash) ~= 0 then
  error('the random id or secret of a new API key exists already')
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
-- Fails here if an index is damaged.
redis.call('ZCARD', api_key_index)
redis.call('ZCARD', keys.api_key_expiry(tag))

-- Nothing is refused below this line.
redis.call('HSET', api_key, 'key_id', key_id, 'tenant_id', tenant_id, 'name', name, 'secret_hash', hash,
  'permissions', permissions, 'scope_filter', scope_filter, 'status', 'ACTIVE', 'created_at', time.ms_text(now),
  'expires_at', time.ms_text(expires_at), unpack(ARGV, first_field))
redis.call('SET', secret_hash, key_id)
redis.call('ZADD', api_key_index, time.ms_text(now), key_id)
redis.call('ZADD', keys.api_key_expiry(tag), time.ms_text(expires_at), key_id)
event_writer.append_event(tag, 'api_key.created', tenant_id, nil, origin,
  { 'key_id', key_id, 'key_name', name, 'new_status', 'ACTIVE', 'permissions', permissions })
audit_log.append_audit(tag, 'createApiKey', 201, tenant_id, 'api_key', key_id, origin, { 'name', name })
return { 'CREATED', unpack(redis.call('HGETALL', api_key)) }
