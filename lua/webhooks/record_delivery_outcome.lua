#!lua flags=allow-oom
-- record_delivery_outcome: update a subscription's count of consecutive failures, and disable it after too many.
-- allow-oom: dead endpoints must be disabled above all when Redis is full.
--
-- KEYS[1]   subscription     hash
-- ARGV[1]   subscription_id
-- ARGV[2]   outcome          success, failure (a delivery was given up), or triggered (the outcome is not known yet)
-- ARGV[3]   delivery_id      public id of the failed delivery
-- ARGV[4]   trace            trace id and flags of its event, or empty
-- ARGV[5]   request_id       of the request that caused the event, or empty
-- ARGV[6]   response_status  of the failed delivery's last attempt, or empty
-- RETURNS   RECORDED failures:int | COUNTED_BEFORE | DISABLED owner reason:consecutive_failures|endpoint_gone | GONE
-- BOUND     one subscription
-- EMITS     webhook.disabled
-- @include  event_writer, keys, time, webhook_record
--
-- A subscription that says so ends once its endpoint has answered 410 Gone, whatever its failures.
-- Writes only the bookkeeping fields, so a concurrent edit survives. Each failure counts once: the subscription
-- remembers the last delivery counted.
local subscription = KEYS[1]
local subscription_id, outcome, delivery_id, trace, request_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local response_status = ARGV[6]

local tag = keys.tag_of(subscription)
local record = redis.call('HMGET', subscription, 'tn', 'st', 'cf', 'df', 'ld', 'um', 'eg')
local owner, status, failures, limit, counted = record[1], record[2], tonumber(record[3] or '0'),
  tonumber(record[4] or '10'), record[5]
if not owner then
  return { 'GONE' }
end
if outcome == 'failure' and counted == delivery_id then
  return { 'COUNTED_BEFORE' }
end
event_writer.require_event_log(tag)
webhook_record.require_webhook_keys(tag, owner)
local now = time.ms_text(time.now_ms())

-- Nothing is refused below this line.
redis.call('HSET', subscription, 'lt', now)
if outcome == 'success' then
  redis.call('HSET', subscription, 'ls', now, 'cf', '0')
  return { 'RECORDED', '0' }
end
if outcome ~= 'failure' then
  return { 'RECORDED', tostring(failures) }
end
failures = failures + 1
redis.call('HSET', subscription, 'cf', tostring(failures), 'lf', now, 'ld', delivery_id)
local is_gone = response_status == '410' and record[7] == '1'
if failures < limit and not is_gone or status == 'DISABLED' then
  return { 'RECORDED', tostring(failures) }
end
local reason, origin = is_gone and 'endpoint_gone' or 'consecutive_failures_exceeded_threshold',
  { actor = 'system', request = request_id, trace = trace,
  correlation = 'webhook_auto_disable:' .. subscription_id .. ':' .. delivery_id }
redis.call('HSET', subscription, 'st', 'DISABLED', 'ua', now, 'sw', webhook_record.stopped_by(reason, now, origin))
webhook_record.webhooks_changed(tag, subscription_id, { tn = owner, st = 'DISABLED', um = record[6] })
event_writer.append_event(tag, 'webhook.disabled', owner, nil, origin, {
  'subscription_id', subscription_id, 'tenant_id', owner, 'previous_status', status, 'new_status', 'DISABLED',
    'disable_reason', reason,
})
return { 'DISABLED', owner, is_gone and 'endpoint_gone' or 'consecutive_failures' }
