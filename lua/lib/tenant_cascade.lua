-- tenant_cascade: what becomes of the things that a closed tenant owns: CASCADE SEMANTICS, Rule 1, of
-- cycles-governance-admin-v0.1.25. Each transition happens once: a thing that has come to its end is passed over, so the
-- cascade may be started over at any time, and several may run at once.
-- @include keys, now_ms, int64, hold, budget, expiry, api_key, webhook, append_event, append_audit, ended

-- Gives a live hold back. What it returns to a budget is added up in the budget's record, whose closing tells of it: the
-- protocol has one event a budget for this, not one a reservation. Returns the outcome of the expiry transition where
-- that came first, or nil.
local function release_of_closed_tenant(tag, tenant_id, reservation_id, now, retention_ms, origin)
  local key = reservation_key(tag, reservation_id)
  local readable, hold = pcall(load_hold, key)
  if not readable or not hold or hold.tenant ~= tenant_id or hold.state ~= 'ACTIVE' then
    return nil
  end
  if is_overdue(hold, now) then
    return expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  end
  local refunds = new_refunds()
  local reason = terms_defect(hold) or take_back(tag, refunds, reservation_id, hold)
  if reason then
    return quarantine(tag, reservation_id, key, reason, now, origin, tenant_id, true)
  end
  write_refunds(refunds)
  for _, budget in ipairs(refunds.budgets) do
    local released = redis.call('HGET', budget.key, 'cascade_released') or '0'
    redis.call('HSET', budget.key, 'cascade_released', i64_saturating_add(released, hold.amount))
  end
  redis.call('HSET', key, 'st', 'RELEASED', 'fa', ms_text(now), 'eb', 'system', 'rr', 'tenant_closed')
  keep_ended(tag, reservation_id, retention_ms)
  redis.call('ZREM', ttl_index_key(tag), reservation_id)
  return { 'RELEASED' }
end

-- Closes a budget. Whatever is reserved even now belongs to holds that cannot be settled (they are quarantined), and goes
-- back to what remains. Returns 'CLOSED', 'FAILED' when the record cannot be trusted, or nil when it is closed already.
local function close_budget_of_closed_tenant(tag, tenant_id, scope, unit, now, origin)
  local readable, budget = pcall(read_budget, tag, unit, scope)
  local remaining = readable and budget and i64_add(budget.remaining, budget.reserved)
  if not remaining then
    return 'FAILED'
  end
  if budget.status == 'CLOSED' then
    return nil
  end
  local drained = redis.call('HMGET', budget.key, 'cascade_released', 'ledger_id')
  local released, ledger_id = i64_saturating_add(drained[1] or '0', budget.reserved), drained[2] or ''
  redis.call('HSET', budget.key, 'status', 'CLOSED', 'closed_at', ms_text(now), 'updated_at', ms_text(now),
    'remaining', remaining, 'reserved', '0')
  redis.call('HDEL', budget.key, 'cascade_released')
  if i64_positive(released) then
    local figures = { 'ledger_id', ledger_id, 'scope', scope, 'unit', unit, 'released_amount', released, 'cascade_reason', 'tenant_closed' }
    append_event(tag, 'reservation.released_via_tenant_cascade', tenant_id, scope, origin, figures)
    append_audit(tag, 'reservation.released_via_tenant_cascade', 200, tenant_id, 'budget', ledger_id, origin, figures)
  end
  local figures = { 'ledger_id', ledger_id, 'scope', scope, 'unit', unit, 'prior_status', budget.status, 'new_status', 'CLOSED',
    'cascade_reason', 'tenant_closed' }
  append_event(tag, 'budget.closed_via_tenant_cascade', tenant_id, scope, origin, figures)
  append_audit(tag, 'budget.closed_via_tenant_cascade', 200, tenant_id, 'budget', ledger_id, origin, figures)
  return 'CLOSED'
end

-- Stops a webhook subscription. Returns 'DISABLED', 'FAILED', or nil when it is disabled already.
local function disable_webhook_of_closed_tenant(tag, tenant_id, subscription_id, now, origin)
  local key = webhook_key(tag, subscription_id)
  local readable, record = pcall(read_webhook, key)
  if not readable or not record then
    return 'FAILED'
  end
  if record.st == 'DISABLED' then
    return nil
  end
  redis.call('HSET', key, 'st', 'DISABLED', 'ua', ms_text(now))
  raise_webhook_revision(tag)
  local figures = { 'subscription_id', subscription_id, 'name', record.nm or '', 'prior_status', record.st, 'new_status', 'DISABLED',
    'cascade_reason', 'tenant_closed' }
  append_event(tag, 'webhook.disabled_via_tenant_cascade', tenant_id, nil, origin, figures)
  append_audit(tag, 'webhook.disabled_via_tenant_cascade', 200, tenant_id, 'webhook', subscription_id, origin, figures)
  return 'DISABLED'
end

-- Revokes an API key and has every instance forget it. Returns 'REVOKED', 'FAILED', or nil when it is of no use already.
local function revoke_key_of_closed_tenant(tag, tenant_id, key_id, now, channel, origin)
  local key = api_key_key(tag, key_id)
  local readable, record = pcall(read_api_key, key)
  if not readable or not record then
    return 'FAILED'
  end
  if record.status ~= 'ACTIVE' or record.expires_at <= now then
    return nil
  end
  redis.call('HSET', key, 'status', 'REVOKED', 'revoked_at', ms_text(now), 'revoked_reason', 'tenant_closed')
  local figures = { 'key_id', key_id, 'name', record.name, 'prior_status', 'ACTIVE', 'new_status', 'REVOKED', 'cascade_reason', 'tenant_closed' }
  append_event(tag, 'api_key.revoked_via_tenant_cascade', tenant_id, nil, origin, figures)
  append_audit(tag, 'api_key.revoked_via_tenant_cascade', 200, tenant_id, 'api_key', key_id, origin, figures)
  redis.call('PUBLISH', channel, record.secret_hash)
  return 'REVOKED'
end
