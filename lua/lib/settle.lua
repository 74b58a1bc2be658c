-- settle: what commit, release and extend have in common: whose hold it is, and whether it may still be settled.
-- @include now_ms, hold, budget, tenant, expiry, ended
--
-- Returns the hold, or nil and a refusal: NOT_FOUND, FORBIDDEN, TENANT_CLOSED, RESERVATION_FINALIZED state, RESERVATION_EXPIRED.
-- `owner` is the caller's tenant, or empty for an operator, who may settle anybody's hold.
-- A closed tenant comes before the reservation's own state. An overdue hold is expired here, by the sweeper's own
-- transition, and then refused. A record that cannot be trusted ends the script with an error, before any write.
-- `...` names further fields of the record, as for load_hold.
local function open_hold(tag, reservation_id, owner, now, retention_ms, origin, ...)
  local hold = load_hold(reservation_key(tag, reservation_id), ...)
  if not hold then
    return nil, { 'NOT_FOUND' }
  end
  if not hold.tenant then
    error('corrupt reservation record ' .. hold.key .. ': MISSING_SCOPES')
  end
  if owner ~= '' and hold.tenant ~= owner then
    return nil, { 'FORBIDDEN' }
  end
  local status, marks = tenant_status(tenant_key(tag, hold.tenant))
  if status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  if hold.state == 'EXPIRED' then
    return nil, { 'RESERVATION_EXPIRED' }
  end
  if hold.state == 'COMMITTED' or hold.state == 'RELEASED' then
    return nil, { 'RESERVATION_FINALIZED', hold.state }
  end
  if is_overdue(hold, now) then
    local outcome = expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
    if outcome[1] == 'QUARANTINED' then
      return nil, outcome
    end
    return nil, { 'RESERVATION_EXPIRED', 'now', outcome[2], outcome[3], ms_text(now) }
  end
  local defect = hold_defect(hold)
  if defect then
    error('corrupt reservation record ' .. hold.key .. ': ' .. defect)
  end
  hold.marks = marks
  return hold
end

-- The hold's budgets, root first. A budget that is gone is a broken invariant: budgets are never deleted.
local function held_budgets(tag, hold)
  local budgets = {}
  for _, scope in ipairs(hold.subject.held) do
    local budget = read_budget(tag, hold.unit, scope)
    if not budget then
      error('missing budget record for ' .. hold.key .. ' at ' .. scope)
    end
    budgets[#budgets + 1] = budget
  end
  return budgets
end

-- Keeps the record of a hold that a request has ended: for the audit trail, and never shorter than the request's idempotency record,
-- whose replay reads the scopes here instead of keeping them twice.
local function keep_settled(tag, reservation_id, retention_ms, idempotency_ttl_ms)
  keep_ended(tag, reservation_id, ms_text(math.max(tonumber(retention_ms), tonumber(idempotency_ttl_ms))))
end

-- The figures of a settlement's idempotency record, put behind the scopes of the hold they belong to.
local function with_scopes(tag, reservation_id, reply, figures, first)
  local hold = load_hold(reservation_key(tag, reservation_id))
  if not hold or hold.subject.defect or #hold.subject.held ~= #figures - first + 1 then
    error('the record of ' .. reservation_id .. ' is gone, so its settlement cannot be replayed')
  end
  for index, scope in ipairs(hold.subject.held) do
    reply[#reply + 1] = scope
    reply[#reply + 1] = figures[first + index - 1]
  end
  return reply
end
