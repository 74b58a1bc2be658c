-- remove_webhook: a subscription's end.
-- @include keys: webhook_key, webhook_index_key
-- @include webhook: webhooks_changed
-- @include append_event: append_event

-- Removes a subscription for good, and tells it.
local function remove_webhook(tag, subscription_id, record, origin)
  redis.call('DEL', webhook_key(tag, subscription_id))
  redis.call('ZREM', webhook_index_key(tag, record.tn), subscription_id)
  webhooks_changed(tag, subscription_id, { tn = record.tn, um = record.um })
  append_event(tag, 'webhook.deleted', record.tn, nil, origin,
    { 'subscription_id', subscription_id, 'tenant_id', record.tn, 'previous_status', record.st, 'changed_fields', '[]' })
end
