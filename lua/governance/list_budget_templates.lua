#!lua flags=no-writes
-- list_budget_templates: the budget templates of one tenant, oldest first, without the boundaries that are planned for
-- them.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant_id
-- ARGV[2]   tenant           where the previous run ended, or empty
-- ARGV[3]   after            the template id at which it ended, or empty
-- ARGV[4]   limit            records per run, at least 1
-- RETURNS   now_ms next_tenant? next_member? records(text_count record{})*
-- BOUND     limit records or 256 KiB of them
-- EMITS     nothing
-- @include  keys, listing
--
-- The next run starts after next_tenant and next_member. Both are empty at the end.
local tenant_index = KEYS[1]
local tenant_id, tenant, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

return listing.list_owned(tenant_index, tenant_id, tenant, after, limit, keys.budget_template_index,
  function(reply, tag, template_id)
  return listing.append_record(reply, keys.budget_template(tag, tenant_id, template_id), 'budget_template',
    { 'template_id', template_id })
end)
