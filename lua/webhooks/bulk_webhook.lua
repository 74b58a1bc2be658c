#!lua flags=allow-oom
-- bulk_webhook: apply a bulk action to one subscription, once.
-- allow-oom: an operator must be able to stop subscriptions when Redis is full.
--
-- KEYS[1]   webhook          hash
-- ARGV[1]   subscription_id
-- ARGV[2]   action           PAUSE, RESUME or DELETE
-- ARGV[3]   keep_ms          how long the action remembers that it changed this subscription
-- ARGV[4]   correlation_id   of the whole action
-- ARGV[5-8] origin           actor is admin; request_id is that of the action's first attempt, after
--           which the set of changed rows is named
-- RETURNS   SUCCEEDED | SKIPPED reason:ALREADY_DELETED|ALREADY_IN_TARGET_STATE | NOT_FOUND | TENANT_CLOSED
--           | INVALID_TRANSITION current_status | NO_SELECTOR | ADMIN_ONLY selector | TOO_MANY_MARKS limit:int
-- BOUND     one subscription
-- EMITS     webhook.updated, webhook.paused, webhook.resumed, webhook.deleted
-- @include  changeable_webhook, emit_webhook_change, event_writer, keys, remove_webhook, time, webhook_record
local webhook = KEYS[1]
local subscription_id, action, keep_ms, correlation_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8], correlation = correlation_id }

local tag = keys.tag_of(webhook)
local changed_rows = keys.bulk_rows(tag, origin.request)

if redis.call('SISMEMBER', changed_rows, subscription_id) == 1 then
  return { 'SUCCEEDED' }
end
local record, refused = changeable_webhook(tag, webhook, '')
if not record then
  return action == 'DELETE' and refused[1] == 'NOT_FOUND' and { 'SKIPPED', 'ALREADY_DELETED' } or refused
end
if (action == 'PAUSE' and record.st ~= 'ACTIVE') or (action == 'RESUME' and record.st == 'ACTIVE') then
  return { 'SKIPPED', 'ALREADY_IN_TARGET_STATE' }
end
if action == 'RESUME' then
  if record.st == 'DISABLED' then
    return { 'INVALID_TRANSITION', record.st }
  end
  local refusal = webhook_record.selector_refusal(record.tn, record.et, record.ec)
    or webhook_record.marks_refusal(tag, record.tn,
    { st = 'ACTIVE', tu = record.tu, ta = record.ta, et = record.et, ec = record.ec })
  if refusal then
    return refusal
  end
end
event_writer.require_event_log(tag)
webhook_record.require_webhook_keys(tag, record.tn)

-- Nothing is refused below this line.
redis.call('SADD', changed_rows, subscription_id)
redis.call('PEXPIRE', changed_rows, keep_ms)
if action == 'DELETE' then
  remove_webhook(tag, subscription_id, record, origin)
  return { 'SUCCEEDED' }
end
local previous_status, new_status = record.st, action == 'PAUSE' and 'PAUSED' or 'ACTIVE'
local now = time.ms_text(time.now_ms())
redis.call('HSET', webhook, 'st', new_status, 'ua', now)
if new_status == 'ACTIVE' then
  redis.call('HSET', webhook, 'cf', '0')
else
  redis.call('HSET', webhook, 'sw', webhook_record.stopped_by('paused', now, origin))
end
record.st = new_status
webhook_record.webhooks_changed(tag, subscription_id, record)
emit_webhook_change(tag, subscription_id, record.tn, previous_status, new_status, {}, origin)
return { 'SUCCEEDED' }
