#!lua flags=allow-oom
-- set_limits: replace a tenant's own limits on what it may own.
-- allow-oom: an operator must be able to restrict a tenant when Redis is full.
--
-- KEYS[1]   tenant         hash
-- KEYS[2]   owned          hash of counts and of the tenant's own limits
-- ARGV[1]   tenant_id
-- ARGV[2]   operation      operation name for the audit row
-- ARGV[3-6] origin           actor is admin
-- ARGV[...] limit and value pairs; the deployment's limit applies where none is given
-- RETURNS   SET | UNCHANGED | NOT_FOUND
-- BOUND     the six limits
-- EMITS     nothing
-- @include  audit_log, keys, tenant_state
--
-- A limit below what the tenant owns removes nothing; it only refuses additions.
local tenant, owned = KEYS[1], KEYS[2]
local tenant_id, operation = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }
local first_limit = 7
local LIMITS = { 'live_reservations', 'budgets', 'policies', 'api_keys', 'webhooks', 'stored_bytes' }

local tag = keys.tag_of(tenant)
if not tenant_state.read_tenant(tenant) then
  return { 'NOT_FOUND' }
end
local given, before, after, changed = {}, {}, {}, false
for i = first_limit, #ARGV, 2 do
  given[ARGV[i]] = ARGV[i + 1]
end
for _, limit in ipairs(LIMITS) do
  local was = redis.call('HGET', owned, 'max:' .. limit) or nil
  before[#before + 1] = was and limit .. '=' .. was
  after[#after + 1] = given[limit] and limit .. '=' .. given[limit]
  changed = changed or was ~= given[limit]
end
if not changed then
  return { 'UNCHANGED' }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
for _, limit in ipairs(LIMITS) do
  if given[limit] then
    redis.call('HSET', owned, 'max:' .. limit, given[limit])
  else
    redis.call('HDEL', owned, 'max:' .. limit)
  end
end
audit_log.append_audit(tag, operation, 200, tenant_id, 'tenant', tenant_id, origin,
  { 'previous_limits', table.concat(before, ','), 'new_limits', table.concat(after, ',') })
return { 'SET' }
