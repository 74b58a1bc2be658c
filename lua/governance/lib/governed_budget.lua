-- governed_budget: the budget that an operation of the governance plane will change.
-- @include budget_figures, int64, keys, period, rollover, tenant_state, time
--
-- Returns the budget, or nil and a refusal: NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED. A closed tenant takes precedence
-- over a closed budget.
-- What is due in the budget's period and credits happens first, even if the caller then refuses. `now` of the budget
-- is the time, `held_by_credits` what its credits have of the allocation, `paid_by_credits` what they have paid of what
-- is spent, and `base_allocated` the rest of the allocation.
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
  if rollover.pass_if_due(tag, budget.key, unit, scope, budget.period_end, budget.credits_text, budget.status, now) then
    budget = budget_figures.read_budget(tag, unit, scope)
  end
  budget.now = now
  local record = redis.call('HMGET', budget.key, 'ledger_id', 'period_allocated', 'paid_by_credits')
  budget.ledger_id, budget.period_allocated = record[1] or '', record[2] or budget.allocated
  budget.held_by_credits = int64.text(period.held_by_credits(budget))
  budget.paid_by_credits = record[3] or '0'
  if not int64.is_amount(budget.paid_by_credits) then
    error('corrupt budget record ' .. budget.key .. ': its paid_by_credits is no amount')
  end
  budget.base_allocated = period.base_of(budget, budget.allocated)
  return budget
end

return governed_budget
