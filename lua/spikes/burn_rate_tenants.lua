#!lua flags=no-writes
-- burn_rate_tenants: a partition's tenants, and which of them have webhook subscriptions, a bounded run at a time.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   after          the last tenant of the run before, or empty
-- ARGV[2]   limit          tenants a run
-- RETURNS   next? tenants(tenant has_webhooks:flag)*
-- BOUND     limit tenants
-- EMITS     nothing
-- @include  keys, listing
--
-- The following run starts after next. There is none at the end.
local tenant_index, after, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])

local tag = keys.tag_of(tenant_index)
local tenants = listing.members_after(tenant_index, after, limit)
local reply = { #tenants == limit and tenants[limit] or '' }
for _, tenant in ipairs(tenants) do
  reply[#reply + 1], reply[#reply + 2] = tenant, tostring(redis.call('EXISTS', keys.webhook_index(tag, tenant)))
end
return reply
