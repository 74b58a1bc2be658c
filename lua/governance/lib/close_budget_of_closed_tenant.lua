-- close_budget_of_closed_tenant: closes the budgets of a closed tenant.
-- Implements CASCADE SEMANTICS, Rule 1, of cycles-governance-admin-v0.1.25. Budgets that are already closed are
-- skipped, so the cascade may start over at any time, and several may run concurrently.
-- @include audit_log, budget_figures, event_writer, int64, time, waking

-- Closes a budget. What is still reserved belongs to holds in quarantine, which cannot be settled; it goes back to
-- remaining. Returns 'CLOSED', 'FAILED' if the record is missing or invalid, or nil if it is already closed.
local function close_budget_of_closed_tenant(tag, tenant_id, scope, unit, now, origin)
  local readable, budget = pcall(budget_figures.read_budget, tag, unit, scope)
  local remaining = readable and budget and int64.add(budget.remaining, budget.reserved)
  if not remaining then
    return 'FAILED'
  end
  if budget.status == 'CLOSED' then
    return nil
  end
  local drained = redis.call('HMGET', budget.key, 'cascade_released', 'ledger_id')
  local released, ledger_id = int64.saturating_add(drained[1] or '0', budget.reserved), drained[2] or ''
  redis.call('HSET', budget.key, 'status', 'CLOSED', 'closed_at', time.ms_text(now), 'updated_at', time.ms_text(now),
    'remaining', remaining, 'reserved', '0')
  redis.call('HDEL', budget.key, 'cascade_released')
  if budget.waiting then
    waking.wake_waiters(budget.key)
  end
  if int64.positive(released) then
    local figures = { 'ledger_id', ledger_id, 'scope', scope, 'unit', unit, 'released_amount', released,
      'cascade_reason', 'tenant_closed' }
    event_writer.append_event(tag, 'reservation.released_via_tenant_cascade', tenant_id, scope, origin, figures)
    audit_log.append_audit(tag, 'reservation.released_via_tenant_cascade', 200, tenant_id, 'budget', ledger_id,
      origin, figures)
  end
  local figures = { 'ledger_id', ledger_id, 'scope', scope, 'unit', unit, 'prior_status', budget.status,
    'new_status', 'CLOSED', 'cascade_reason', 'tenant_closed' }
  event_writer.append_event(tag, 'budget.closed_via_tenant_cascade', tenant_id, scope, origin, figures)
  audit_log.append_audit(tag, 'budget.closed_via_tenant_cascade', 200, tenant_id, 'budget', ledger_id, origin, figures)
  return 'CLOSED'
end

return close_budget_of_closed_tenant
