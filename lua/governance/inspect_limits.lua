#!lua flags=no-writes
-- inspect_limits: read how much a tenant owns and its own limits.
--
-- KEYS[1]   tenant         hash
-- KEYS[2]   owned          hash of counts and of the tenant's own limits
-- ARGV[1]   tenant_id
-- RETURNS   NOT_FOUND | LIMITS limits(limit used:int own_limit:int?)*
-- BOUND     a count of each index, regardless of its size
-- EMITS     nothing
-- @include  keys: tag_of_key, budget_index_key, api_key_index_key, policy_index_key, webhook_index_key
-- @include  tenant: read_tenant
-- @include  owned: owned_count, live_count, stored_bytes
-- @include  now_ms: ms_text
--
-- Without an own_limit, the deployment's limit applies.
local tenant, owned = KEYS[1], KEYS[2]
local tenant_id = ARGV[1]

local tag = tag_of_key(tenant)
if not read_tenant(tenant) then
  return { 'NOT_FOUND' }
end

local counted = redis.call('HMGET', owned, 'live', 'text')
local reply = { 'LIMITS' }
local function append_limit(limit, used)
  reply[#reply + 1] = limit
  reply[#reply + 1] = ms_text(used)
  reply[#reply + 1] = redis.call('HGET', owned, 'max:' .. limit) or ''
end
append_limit('live_reservations', math.max(0, live_count(counted[1])))
append_limit('budgets', redis.call('ZCARD', budget_index_key(tag, tenant_id)))
append_limit('policies', redis.call('ZCARD', policy_index_key(tag, tenant_id)))
append_limit('api_keys', redis.call('ZCARD', api_key_index_key(tag, tenant_id)))
append_limit('webhooks', redis.call('ZCARD', webhook_index_key(tag, tenant_id)))
append_limit('stored_bytes', stored_bytes(tag, tenant_id, owned_count(counted[2])))
return reply
