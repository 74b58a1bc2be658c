-- remove_webhook: deletes a subscription.
-- @include event_writer, keys, webhook_record

-- Deletes a subscription and emits its event.
local function remove_webhook(tag, subscription_id, record, origin)
  redis.call('DEL', keys.webhook(tag, subscription_id))
  redis.call('ZREM', keys.webhook_index(tag, record.tn), subscription_id)
  webhook_record.webhooks_changed(tag, subscription_id, { tn = record.tn, um = record.um })
  event_writer.append_event(tag, 'webhook.deleted', record.tn, nil, origin,
    { 'subscription_id', subscription_id, 'tenant_id', record.tn, 'previous_status', record.st,
    'changed_fields', '[]' })
end

return remove_webhook
