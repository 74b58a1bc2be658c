-- settle: what commit, release and extend share: whether the caller may settle a hold, and whether it can still be
-- settled.
-- @include brief_figures, damage, expiry, grouped, hold_form, hold_record, idempotency_record, keys, shared_budgets,
--          tenant_state, time
--
-- Returns the hold, or nil and a refusal: NOT_FOUND, FORBIDDEN, TENANT_CLOSED, RESERVATION_FINALIZED state,
-- RESERVATION_EXPIRED, QUARANTINED reason. A hold that cannot be settled is quarantined, and returned third, followed
-- by its owner and its creation time.
-- Its `defect` is the reason, or nil if only its budgets do not match.
-- `owner` is the caller's tenant, or empty for an operator, who may settle any hold.
-- A closed tenant takes precedence over the reservation's own state. An overdue hold is expired here, by the same
-- transition as in the sweeper, and then refused. `...` names further fields of the record, as for load_hold.
local function open_hold(group, tag, reservation_id, owner, now, retention_ms, origin, ...)
  local key = keys.reservation(tag, reservation_id)
  local readable, hold = pcall(hold_record.load_hold, key, ...)
  if not readable or not hold then
    return nil, { 'NOT_FOUND', not readable and 'NOT_A_RECORD' or nil }
  end
  local defect = hold_record.hold_defect(hold)
  local tenant, created_at = hold.tenant, nil
  if owner ~= '' and tenant ~= owner then
    tenant, created_at, defect = owner, damage.creation_in_index(tag, owner, reservation_id), defect or 'MISSING_SCOPES'
    if not created_at then
      return nil, { 'FORBIDDEN' }
    end
  elseif defect then
    -- This may have to search the tenants of the partition.
    grouped.leave(group, tag)
    tenant, created_at = damage.owner_of(tag, reservation_id, tenant)
  end
  local status, marks, commit_rates
  if tenant then
    status, marks, commit_rates = grouped.tenant(group, tenant_state.tenant_status, keys.tenant(tag, tenant))
  end
  if status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  local state = damage.known_state(key, hold.state)
  if state == 'EXPIRED' then
    return nil, { 'RESERVATION_EXPIRED' }
  end
  if state == 'COMMITTED' or state == 'RELEASED' then
    return nil, { 'RESERVATION_FINALIZED', state }
  end
  if defect then
    grouped.leave(group, tag)
    hold.defect = defect
    return nil, expiry.quarantine(tag, reservation_id, key, defect, origin, tenant, true), hold, tenant, created_at
  end
  if hold_record.is_overdue(hold, now) then
    grouped.leave(group, tag)
    local outcome = expiry.expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
    if outcome[1] == 'QUARANTINED' then
      return nil, outcome, hold, tenant
    end
    return nil, { 'RESERVATION_EXPIRED', outcome.charge and 'charged' or 'now', outcome[2], outcome[3],
      time.ms_text(now) }
  end
  hold.marks, hold.has_commit_rates = marks, commit_rates
  return hold
end

-- The hold's budgets, root first, or nil if one is missing: budgets are never deleted, so the record may name the wrong
-- scopes. A damaged or unbalanced budget ends the script with an error.
local function held_budgets(group, tag, hold)
  local budgets = {}
  for _, scope in ipairs(hold.subject.held) do
    local budget = shared_budgets.budget(group, tag, hold.unit, scope)
    if not budget then
      return nil
    end
    budgets[#budgets + 1] = budget
  end
  return budgets
end

-- How long the record of a settled hold is kept: for the audit view, and at least as long as the request's idempotency
-- record, whose replay reads the scopes here instead of storing them twice.
local function settled_retention(retention_ms, idempotency_ttl_ms)
  return tonumber(retention_ms) >= tonumber(idempotency_ttl_ms) and retention_ms or idempotency_ttl_ms
end

-- Where the reply to a settlement has the unit, which follows from the hold, and where the balances of the hold's
-- scopes begin.
local PARTS = { COMMITTED = { unit = 3, balances = 7 }, RELEASED = { unit = 2, balances = 3 } }

-- The reply to a settlement that the idempotency record of this name tells of, or nil.
local function earlier_settlement(tag, reservation_id, idempotency, fingerprint, word)
  local parts = idempotency_record.recall(idempotency, fingerprint)
  if not parts then
    return nil
  elseif parts == 'MISMATCH' then
    return { 'IDEMPOTENCY_MISMATCH' }
  end
  local places, readable, hold = PARTS[word], pcall(hold_record.load_hold, keys.reservation(tag, reservation_id))
  if not readable or not hold or hold.subject.defect and not hold.subject.holds_nothing or not hold.unit then
    error('the record of ' .. reservation_id .. ' is gone, so its settlement cannot be replayed')
  end
  table.insert(parts, places.unit, hold.unit)
  if #hold.subject.held ~= #parts - places.balances + 1 then
    error('the record of ' .. reservation_id .. ' names other scopes than its settlement')
  end
  local reply = { word, 'replay' }
  for i = 1, places.balances - 1 do
    reply[i + 2] = hold_form.POLICIES_BY_LETTER[parts[i]] or parts[i]
  end
  for index, scope in ipairs(hold.subject.held) do
    reply[#reply + 1] = scope
    reply[#reply + 1] = brief_figures.full_balance(parts[places.balances + index - 1])
  end
  return reply
end

return {
  earlier_settlement = earlier_settlement, held_budgets = held_budgets, open_hold = open_hold,
  settled_retention = settled_retention,
}
