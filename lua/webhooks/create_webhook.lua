#!lua
-- create_webhook: subscribe an endpoint to events of one tenant, or of all.
--
-- KEYS[1]   webhook          hash, created by this script
-- KEYS[2]   webhook_index    sorted set of the owner's subscriptions
-- KEYS[3]   tenant           hash of the owner; __system__ has none
-- ARGV[1]   tenant_id        the owner, or __system__ for subscriptions of the operators
-- ARGV[2]   subscription_id  the new id
-- ARGV[3]   event_types      comma-separated
-- ARGV[4]   event_categories comma-separated
-- ARGV[5]   operation        operation name for the audit row
-- ARGV[6-9] origin           actor is api_key, admin or admin_on_behalf_of
-- ARGV[10]  max_webhooks     the deployment's limit for each tenant, 0 for none
-- ARGV[...] field and value pairs of the record
-- RETURNS   CREATED record{} | TENANT_NOT_FOUND | TENANT_CLOSED | NO_SELECTOR | ADMIN_ONLY selector
--           | TOO_MANY limit:int
--           | TOO_MANY_MARKS limit:int | LIMIT_EXCEEDED limit allowed:int used:int
-- BOUND     one subscription
-- EMITS     webhook.created
-- @include  audit_log, event_writer, keys, owned_counts, tenant_state, time, webhook_record
local webhook, webhook_index, tenant = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, subscription_id, event_types, event_categories, operation = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9],
  correlation = 'webhook_create:' .. subscription_id }
local max_webhooks, first_field = ARGV[10], 11
-- Each event of a tenant is matched against all of its subscriptions.
local WEBHOOKS_PER_OWNER = 1000

local tag = keys.tag_of(webhook)
local now = time.ms_text(time.now_ms())

if tenant_id ~= webhook_record.SYSTEM_OWNER then
  local owner = tenant_state.read_tenant(tenant)
  if not owner then
    return { 'TENANT_NOT_FOUND' }
  end
  if owner.status == 'CLOSED' then
    return { 'TENANT_CLOSED' }
  end
end
local refusal = webhook_record.selector_refusal(tenant_id, event_types, event_categories)
if refusal then
  return refusal
end
refusal = tenant_id ~= webhook_record.SYSTEM_OWNER
  and owned_counts.count_refusal(tag, tenant_id, 'webhooks', max_webhooks, webhook_index)
if refusal then
  return refusal
end
local record = { tn = tenant_id, st = 'ACTIVE', et = event_types, ec = event_categories }
for i = first_field, #ARGV, 2 do
  record[ARGV[i]] = ARGV[i + 1]
end
refusal = webhook_record.marks_refusal(tag, tenant_id, record)
if refusal then
  return refusal
end
if redis.call('ZCARD', webhook_index) >= WEBHOOKS_PER_OWNER then
  return { 'TOO_MANY', tostring(WEBHOOKS_PER_OWNER) }
end
if redis.call('EXISTS', webhook) == 1 then
  error('the random id of a new webhook subscription exists already')
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
webhook_record.require_webhook_keys(tag, tenant_id)

-- Nothing is refused below this line.
redis.call('HSET', webhook, 'tn', tenant_id, 'et', event_types, 'ec', event_categories, 'st', 'ACTIVE', 'cf', '0', 'ca',
  now, 'ua', now,
  unpack(ARGV, first_field))
redis.call('ZADD', webhook_index, 0, subscription_id)
webhook_record.webhooks_changed(tag, subscription_id, record)
event_writer.append_event(tag, 'webhook.created', tenant_id, nil, origin,
  { 'subscription_id', subscription_id, 'tenant_id', tenant_id, 'new_status', 'ACTIVE', 'changed_fields', '[]' })
audit_log.append_audit(tag, operation, 201, tenant_id, 'webhook', subscription_id, origin,
  { 'event_types', event_types })
return { 'CREATED', unpack(redis.call('HGETALL', webhook)) }
