#!lua
-- update_webhook: change a subscription, or pause and resume it.
--
-- KEYS[1]   webhook          hash
-- ARGV[1]   tenant_id        the caller's tenant, or empty for an operator
-- ARGV[2]   subscription_id
-- ARGV[3]   status           ACTIVE or PAUSED, or empty for no change
-- ARGV[4]   known_secret     the sealed secret that the caller compared with the new one
-- ARGV[5]   known_headers    same for the headers, or empty
-- ARGV[6]   rotation_ms      how long the previous secret stays valid
-- ARGV[7]   operation        operation name for the audit row
-- ARGV[8-11] origin           actor is api_key, admin or admin_on_behalf_of
-- ARGV[...] field and value pairs of the record; an empty value removes the field
-- RETURNS   UPDATED record{} | NOT_FOUND | TENANT_CLOSED | STALE | NO_SELECTOR | ADMIN_ONLY selector
--           | TOO_MANY_MARKS limit:int
-- BOUND     one subscription
-- EMITS     webhook.updated, webhook.paused, webhook.resumed
-- @include  audit_log, changeable_webhook, emit_webhook_change, event_writer, keys, time, webhook_record
--
-- STALE: a concurrent request sealed a secret or a header; the caller must read the record again. A request that
-- changes nothing returns the subscription and emits nothing. Becoming ACTIVE resets the count of failures.
local webhook = KEYS[1]
local tenant_id, subscription_id, status, known_secret, known_headers, rotation_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  ARGV[5], tonumber(ARGV[6])
local operation = ARGV[7]
local origin = { actor = ARGV[8], key = ARGV[9], request = ARGV[10], trace = ARGV[11],
  correlation = 'webhook_update:' .. subscription_id .. ':' .. ARGV[10] }
local first_field = 12
-- The member of the protocol's WebhookSubscription, or of Holdfast's options of one, that each field belongs to.
local MEMBER_OF = { nm = 'name', ds = 'description', ur = 'url', et = 'event_types', ec = 'event_categories',
  sf = 'scope_filter', th = 'thresholds', tu = 'thresholds', rp = 'retry_policy', df = 'disable_after_failures',
  hd = 'headers', hn = 'headers', se = 'signing_secret', md = 'metadata', ta = 'used_amounts', eg = 'end_on_gone',
  er = 'events_per_request', oc = 'thresholds_once_a_period',
  pf = 'payload_filter' }
local KEPT_EMPTY = { et = true, ec = true }

local tag = keys.tag_of(webhook)
local now = time.now_ms()

local record, refused = changeable_webhook(tag, webhook, tenant_id)
if not record then
  return refused
end

local previous_status, previous_secret = record.st, record.se
local changed, members, changed_member = {}, {}, {}
for i = first_field, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if (record[field] or '') ~= value then
    if (field == 'se' and previous_secret ~= known_secret)
      or (field == 'hd' and (record.hd or '') ~= known_headers) then
      return { 'STALE' }
    end
    changed[#changed + 1] = field
    record[field] = (value ~= '' or KEPT_EMPTY[field]) and value or nil
    local member = MEMBER_OF[field]
    if not changed_member[member] then
      changed_member[member] = true
      members[#members + 1] = member
    end
  end
end
local new_status = status ~= '' and status or previous_status
local only_pauses = #changed == 0 and new_status ~= 'ACTIVE'
record.st = new_status
local refusal = not only_pauses
  and (webhook_record.selector_refusal(record.tn, record.et, record.ec)
  or webhook_record.marks_refusal(tag, record.tn, record))
if refusal then
  return refusal
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
webhook_record.require_webhook_keys(tag, record.tn)

-- Nothing is refused below this line.
if status == 'ACTIVE' and record.cf ~= '0' then
  redis.call('HSET', webhook, 'cf', '0')
end
if #changed > 0 or new_status ~= previous_status then
  for _, field in ipairs(changed) do
    if record[field] then
      redis.call('HSET', webhook, field, record[field])
    else
      redis.call('HDEL', webhook, field)
    end
  end
  if changed_member.signing_secret then
    redis.call('HSET', webhook, 'sp', previous_secret, 'su', time.ms_text(now + rotation_ms))
  end
  redis.call('HSET', webhook, 'st', new_status, 'ua', time.ms_text(now))
  if new_status == 'PAUSED' and previous_status ~= 'PAUSED' then
    redis.call('HSET', webhook, 'sw', webhook_record.stopped_by('paused', time.ms_text(now), origin))
  end
  webhook_record.webhooks_changed(tag, subscription_id, record)
  emit_webhook_change(tag, subscription_id, record.tn, previous_status, new_status, members, origin)
  audit_log.append_audit(tag, operation, 200, record.tn, 'webhook', subscription_id, origin,
    { 'previous_status', previous_status, 'new_status', new_status, 'changed_fields', table.concat(members, ',') })
end
return { 'UPDATED', unpack(redis.call('HGETALL', webhook)) }
