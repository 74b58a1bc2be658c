#!lua flags=no-writes
-- list_budgets: the budgets of one tenant or of all tenants of a partition, without free-text fields, in bounded pages.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant_id        or empty for all
-- ARGV[2]   tenant           where the previous run ended, or empty
-- ARGV[3]   after            the member of the tenant's index at which it ended, or empty
-- ARGV[4]   limit            records per run, at least 1
-- RETURNS   now_ms next_tenant? next_member? budgets*
-- BOUND     limit records or 256 KiB of them, without free-text fields
-- EMITS     nothing
-- @include  keys, listed_budget, listing, time
--
-- The next run starts after next_tenant and next_member. Both are empty at the end.
local tenant_index = KEYS[1]
local tenant_id, tenant, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = time.now_ms()

return listing.list_owned(tenant_index, tenant_id, tenant, after, limit, keys.budget_index, function(reply, tag, member)
  return listed_budget.append_budget(reply, tag, member, now)
end)
