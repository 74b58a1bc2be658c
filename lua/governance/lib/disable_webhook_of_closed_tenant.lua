-- disable_webhook_of_closed_tenant: disables the webhook subscriptions of a closed tenant.
-- Implements CASCADE SEMANTICS, Rule 1, of cycles-governance-admin-v0.1.25. Subscriptions that are already disabled are
-- skipped, so the cascade may start over at any time, and several may run concurrently.
-- @include audit_log, event_writer, keys, time, webhook_record

-- Disables a subscription. Returns 'DISABLED', 'FAILED' if the record is missing or invalid, or nil if it is already
-- disabled.
local function disable_webhook_of_closed_tenant(tag, tenant_id, subscription_id, now, origin)
  local key = keys.webhook(tag, subscription_id)
  -- Not the whole record: a step disables many subscriptions, and each may have a long description.
  local f = redis.pcall('HMGET', key, 'tn', 'st', 'et', 'ec', 'nm')
  local record = { st = f[2], nm = f[5] }
  if f.err or not f[1] or not webhook_record.WEBHOOK_STATUS[f[2]] or not f[3] or not f[4] then
    return 'FAILED'
  end
  if record.st == 'DISABLED' then
    return nil
  end
  redis.call('HSET', key, 'st', 'DISABLED', 'ua', time.ms_text(now), 'sw',
    webhook_record.stopped_by('tenant_closed', time.ms_text(now), origin))
  webhook_record.note_webhook_change(tag, tenant_id, subscription_id)
  local figures = { 'subscription_id', subscription_id, 'name', record.nm or '', 'prior_status', record.st,
    'new_status', 'DISABLED', 'cascade_reason', 'tenant_closed' }
  event_writer.append_event(tag, 'webhook.disabled_via_tenant_cascade', tenant_id, nil, origin, figures)
  audit_log.append_audit(tag, 'webhook.disabled_via_tenant_cascade', 200, tenant_id, 'webhook', subscription_id,
    origin, figures)
  return 'DISABLED'
end

return disable_webhook_of_closed_tenant
