#!lua flags=no-writes
-- inspect_limits: read how much a tenant owns and its own limits.
--
-- KEYS[1]   tenant         hash
-- KEYS[2]   owned          hash of counts and of the tenant's own limits
-- ARGV[1]   tenant_id
-- RETURNS   NOT_FOUND | LIMITS limits(limit used:int own_limit:int?)*
-- BOUND     a count of each index, regardless of its size
-- EMITS     nothing
-- @include  keys, owned_counts, tenant_state, time
--
-- Without an own_limit, the deployment's limit applies.
local tenant, owned = KEYS[1], KEYS[2]
local tenant_id = ARGV[1]

local tag = keys.tag_of(tenant)
if not tenant_state.read_tenant(tenant) then
  return { 'NOT_FOUND' }
end

local counted = redis.call('HMGET', owned, 'live', 'text')
local reply = { 'LIMITS' }
local function append_limit(limit, used)
  reply[#reply + 1] = limit
  reply[#reply + 1] = time.ms_text(used)
  reply[#reply + 1] = redis.call('HGET', owned, 'max:' .. limit) or ''
end
append_limit('live_reservations', math.max(0, owned_counts.live_count(counted[1])))
append_limit('budgets', redis.call('ZCARD', keys.budget_index(tag, tenant_id)))
append_limit('policies', redis.call('ZCARD', keys.policy_index(tag, tenant_id)))
append_limit('api_keys', redis.call('ZCARD', keys.api_key_index(tag, tenant_id)))
append_limit('webhooks', redis.call('ZCARD', keys.webhook_index(tag, tenant_id)))
append_limit('stored_bytes', owned_counts.stored_bytes(tag, tenant_id, owned_counts.owned_count(counted[2])))
return reply
