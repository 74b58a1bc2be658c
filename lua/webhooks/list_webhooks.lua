#!lua flags=no-writes
-- list_webhooks: the webhook subscriptions of one owner or of all tenants, a bounded run at a time, without their free texts.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant_id        or empty for all tenants of the partition; __system__ has to be named
-- ARGV[2]   tenant           where the run before ended, or empty
-- ARGV[3]   after            the subscription id that ended it, or empty
-- ARGV[4]   limit            records a run, at least 1
-- RETURNS   now_ms next_tenant? next_member? records(text_count record{})*
-- BOUND     limit records or 256 KiB of them, without their free texts
-- EMITS     nothing
-- @include  keys: webhook_key, webhook_index_key
-- @include  listing: members_after_name, append_record, list_owned
--
-- The following run starts after next_tenant and next_member. There are none at the end.
local tenant_index = KEYS[1]
local tenant_id, tenant, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

return list_owned(tenant_index, tenant_id, tenant, after, limit, webhook_index_key, function(reply, tag, subscription_id)
  return append_record(reply, webhook_key(tag, subscription_id), 'webhook', { 'id', subscription_id })
end, members_after_name)
