-- remove_webhook: deletes a subscription.
-- @include keys: webhook_key, webhook_index_key
-- @include webhook: webhooks_changed
-- @include append_event: append_event

-- Deletes a subscription and emits its event.
local function remove_webhook(tag, subscription_id, record, origin)
  redis.call('DEL', webhook_key(tag, subscription_id))
  redis.call('ZREM', webhook_index_key(tag, record.tn), subscription_id)
  webhooks_changed(tag, subscription_id, { tn = record.tn, um = record.um })
  append_event(tag, 'webhook.deleted', record.tn, nil, origin,
    { 'subscription_id', subscription_id, 'tenant_id', record.tn, 'previous_status', record.st, 'changed_fields', '[]' })
end
