-- tenant_cascade: what becomes of the things that a closed tenant owns: CASCADE SEMANTICS, Rule 1, of
-- cycles-governance-admin-v0.1.25. Each transition happens once: a thing that has come to its end is passed over, so the
-- cascade may be started over at any time, and several may run at once.
-- @include fields: FIELD
-- @include keys: reservation_key, api_key_key
-- @include now_ms: ms_text
-- @include int64: i64_add, i64_positive, i64_saturating_add
-- @include hold: load_hold, terms_defect, is_overdue
-- @include budget: read_budget
-- @include expiry: quarantine, reclaim
-- @include api_key: read_api_key
-- @include append_event: append_event
-- @include append_audit: append_audit
-- @include ended: note_ended
-- @include owned: count_ended
-- @include refund: new_refunds, take_back, write_refunds

-- Gives back those of some holds of an index of deadlines that the tenant still has. What they return to a budget is added up in
-- the budget's record, whose closing tells of it: the protocol has one event a budget for this, not one a reservation. Each budget is read and
-- written once, however many of the holds it has. Returns how many ended, and the outcomes that have to be told: those of the
-- expiry transition for holds that were dead before, and quarantines.
local function release_holds_of_closed_tenant(tag, tenant_id, index, reservation_ids, now, retention_ms, origin)
  local live, overdue = {}, {}
  for _, reservation_id in ipairs(reservation_ids) do
    local readable, hold = pcall(load_hold, reservation_key(tag, reservation_id))
    if readable and hold and hold.tenant == tenant_id and hold.state == 'ACTIVE' then
      if is_overdue(hold, now) then
        overdue[#overdue + 1] = reservation_id
      else
        live[#live + 1] = { reservation_id, hold }
      end
    end
  end
  -- These come first: they write the budgets that the others then read.
  local outcomes = reclaim(tag, overdue, now, retention_ms, origin)
  if #overdue > 0 then
    -- They may have stood in the cleanup index, where they do not belong.
    redis.call('ZREM', index, unpack(overdue))
  end
  local refunds = new_refunds()
  for _, one in ipairs(live) do
    local reservation_id, hold = one[1], one[2]
    local reason = terms_defect(hold) or take_back(tag, refunds, reservation_id, hold)
    if reason then
      outcomes[#outcomes + 1] = quarantine(tag, reservation_id, hold.key, reason, now, origin, tenant_id, true)
    else
      for _, budget in ipairs(refunds.families[hold.subject]) do
        budget.cascade_released = i64_saturating_add(budget.cascade_released or '0', hold.amount)
      end
    end
  end
  local ids = refunds.ids
  if #ids == 0 then
    return #outcomes, outcomes
  end
  redis.call('ZREM', index, unpack(ids))
  write_refunds(refunds)
  for _, budget in ipairs(refunds.budgets) do
    if budget.cascade_released then
      local released = redis.call('HGET', budget.key, 'cascade_released') or '0'
      redis.call('HSET', budget.key, 'cascade_released', i64_saturating_add(released, budget.cascade_released))
    end
  end
  for _, hold in ipairs(refunds.holds) do
    redis.call('HSET', hold.key, FIELD.state, 'RELEASED', FIELD.ended_at, ms_text(now), FIELD.ended_by, 'system',
      FIELD.release_reason, 'tenant_closed')
    redis.call('PEXPIRE', hold.key, retention_ms)
  end
  count_ended(tag, tenant_id, #ids)
  note_ended(tag, unpack(ids))
  return #outcomes + #ids, outcomes
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
