-- disable_webhook_of_closed_tenant: what becomes of the webhook subscriptions of a closed tenant: CASCADE SEMANTICS, Rule 1, of
-- cycles-governance-admin-v0.1.25. A thing that has come to its end is passed over, so the cascade may be started over at any time,
-- and several may run at once.
-- @include keys: webhook_key
-- @include now_ms: ms_text
-- @include webhook: WEBHOOK_STATUS, note_webhook_change
-- @include append_event: append_event
-- @include append_audit: append_audit

-- Stops a webhook subscription. Returns 'DISABLED', 'FAILED', or nil when it is disabled already.
local function disable_webhook_of_closed_tenant(tag, tenant_id, subscription_id, now, origin)
  local key = webhook_key(tag, subscription_id)
  -- Not the whole record: a step stops many subscriptions, and each may have a large description of itself.
  local f = redis.pcall('HMGET', key, 'tn', 'st', 'et', 'ec', 'nm')
  local record = { st = f[2], nm = f[5] }
  if f.err or not f[1] or not WEBHOOK_STATUS[f[2]] or not f[3] or not f[4] then
    return 'FAILED'
  end
  if record.st == 'DISABLED' then
    return nil
  end
  redis.call('HSET', key, 'st', 'DISABLED', 'ua', ms_text(now))
  note_webhook_change(tag, tenant_id, subscription_id)
  local figures = { 'subscription_id', subscription_id, 'name', record.nm or '', 'prior_status', record.st, 'new_status', 'DISABLED',
    'cascade_reason', 'tenant_closed' }
  append_event(tag, 'webhook.disabled_via_tenant_cascade', tenant_id, nil, origin, figures)
  append_audit(tag, 'webhook.disabled_via_tenant_cascade', 200, tenant_id, 'webhook', subscription_id, origin, figures)
  return 'DISABLED'
end
