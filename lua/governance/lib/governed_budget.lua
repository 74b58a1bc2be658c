-- governed_budget: the budget that an operation of the governance plane will change.
-- @include budget_figures, keys, rollover, tenant_state, time
--
-- Returns the budget, or nil and a refusal: NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED. A closed tenant takes precedence
-- over a closed budget.
-- A budget whose period has ended is rolled over first, even if the caller then refuses. `now` of the budget is the
-- time.
local function governed_budget(tag, unit, scope, tenant_id)
  local budget = budget_figures.read_budget(tag, unit, scope)
  if not budget then
    return nil, { 'NOT_FOUND' }
  end
  local owner = tenant_state.read_tenant(keys.tenant(tag, tenant_id))
  if owner and owner.status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  if budget.status == 'CLOSED' then
    return nil, { 'BUDGET_CLOSED' }
  end
  local now = time.now_ms()
  if rollover.roll_over_if_due(tag, budget.key, unit, scope, budget.period_end, budget.status, now) then
    budget = budget_figures.read_budget(tag, unit, scope)
  end
  budget.now = now
  local record = redis.call('HMGET', budget.key, 'ledger_id', 'period_allocated')
  budget.ledger_id, budget.period_allocated = record[1] or '', record[2] or budget.allocated
  return budget
end

return governed_budget
