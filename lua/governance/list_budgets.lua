#!lua flags=no-writes
-- list_budgets: the budgets of one tenant or of all tenants of a partition, without free-text fields, in bounded pages.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant_id        or empty for all
-- ARGV[2]   tenant           where the previous run ended, or empty
-- ARGV[3]   after            the 'scope unit' at which it ended, or empty
-- ARGV[4]   limit            records per run, at least 1
-- RETURNS   now_ms next_tenant? next_member? records(text_count record{})*
-- BOUND     limit records or 256 KiB of them, without free-text fields
-- EMITS     nothing
-- @include  keys: budget_key, budget_index_key
-- @include  now_ms: now_ms
-- @include  period: add_current_fields
-- @include  listing: append_record, list_owned
--
-- The next run starts after next_tenant and next_member. Both are empty at the end.
local tenant_index = KEYS[1]
local tenant_id, tenant, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = now_ms()

return list_owned(tenant_index, tenant_id, tenant, after, limit, budget_index_key, function(reply, tag, member)
  local scope, unit = string.match(member, '^(%S+) (%S+)$')
  local key, extra = budget_key(tag, unit, scope), { 'scope', scope, 'unit', unit }
  -- Of two values of a field the later one counts. A damaged budget is listed as it is, and whoever reads the list reports it.
  pcall(add_current_fields, extra, key, scope, now)
  return append_record(reply, key, 'budget', extra)
end)
