#!lua flags=allow-oom
-- delete_webhook: delete a subscription permanently.
-- allow-oom: it frees memory.
--
-- KEYS[1]   webhook          hash
-- ARGV[1]   tenant_id        the caller's tenant, or empty for an operator
-- ARGV[2]   subscription_id
-- ARGV[3]   operation        operation name for the audit row
-- ARGV[4-7] origin           actor is api_key, admin or admin_on_behalf_of
-- RETURNS   DELETED | NOT_FOUND | TENANT_CLOSED
-- BOUND     one subscription
-- EMITS     webhook.deleted
-- @include  audit_log, changeable_webhook, event_writer, keys, remove_webhook, webhook_record
--
-- Deliveries in flight no longer find the subscription, and fail.
local webhook = KEYS[1]
local tenant_id, subscription_id, operation = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[4], key = ARGV[5], request = ARGV[6], trace = ARGV[7],
  correlation = 'webhook_delete:' .. subscription_id }

local tag = keys.tag_of(webhook)
local record, refusal = changeable_webhook(tag, webhook, tenant_id)
if not record then
  return refusal
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
webhook_record.require_webhook_keys(tag, record.tn)

-- Nothing is refused below this line.
remove_webhook(tag, subscription_id, record, origin)
audit_log.append_audit(tag, operation, 204, record.tn, 'webhook', subscription_id, origin,
  { 'previous_status', record.st })
return { 'DELETED' }
