#!lua
-- create_tenant: create a tenant, unless it exists.
--
-- KEYS[1]   tenant           hash
-- KEYS[2]   tenant_index     sorted set of the partition's tenants, score = creation time in ms
-- ARGV[1]   tenant_id
-- ARGV[2]   name
-- ARGV[3-6] origin           actor is admin
-- ARGV[...] field and value pairs of the record's other settings
-- RETURNS   CREATED record{} | EXISTS record{} | DUPLICATE
-- BOUND     one tenant
-- EMITS     tenant.created
-- @include  audit_log, derived_fields, event_writer, keys, tenant_state, time
--
-- The id is the idempotency key: the same id with the same name is a repeated request, and emits nothing.
local tenant, tenant_index = KEYS[1], KEYS[2]
local tenant_id, name = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }
local first_field = 7

local tag = keys.tag_of(tenant)

if tenant_state.read_tenant(tenant) then
  if redis.call('HGET', tenant, 'name') ~= name then
    return { 'DUPLICATE' }
  end
  return { 'EXISTS', unpack(redis.call('HGETALL', tenant)) }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
-- If an earlier record of this tenant was lost, its policies and subscriptions are still there.
local derived = derived_fields(tag, tenant_id)

-- Nothing is refused below this line.
local now = time.ms_text(time.now_ms())
-- The index first: if it is damaged, the script fails here.
redis.call('ZADD', tenant_index, now, tenant_id)
redis.call('HSET', tenant, 'tenant_id', tenant_id, 'name', name, 'status', 'ACTIVE', 'created_at', now,
  'updated_at', now,
  unpack(ARGV, first_field))
if #derived > 0 then
  redis.call('HSET', tenant, unpack(derived))
end
event_writer.append_event(tag, 'tenant.created', tenant_id, nil, origin,
  { 'tenant_id', tenant_id, 'new_status', 'ACTIVE' })
audit_log.append_audit(tag, 'createTenant', 201, tenant_id, 'tenant', tenant_id, origin, { 'name', name })
return { 'CREATED', unpack(redis.call('HGETALL', tenant)) }
