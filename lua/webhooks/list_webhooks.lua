#!lua flags=no-writes
-- list_webhooks: the webhook subscriptions of one owner or of all tenants, without free-text fields, in bounded pages.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant_id        or empty for all tenants of the partition; __system__ is only listed by name
-- ARGV[2]   tenant           where the previous run ended, or empty
-- ARGV[3]   after            the subscription id at which it ended, or empty
-- ARGV[4]   limit            records per run, at least 1
-- RETURNS   now_ms next_tenant? next_member? records(text_count record{})*
-- BOUND     limit records or 256 KiB of them, without free-text fields
-- EMITS     nothing
-- @include  keys, listing
--
-- The next run starts after next_tenant and next_member. Both are empty at the end.
local tenant_index = KEYS[1]
local tenant_id, tenant, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

return listing.list_owned(tenant_index, tenant_id, tenant, after, limit, keys.webhook_index,
  function(reply, tag, subscription_id)
  return listing.append_record(reply, keys.webhook(tag, subscription_id), 'webhook', { 'id', subscription_id })
end, listing.members_after_name)
