-- funding: how CREDIT, DEBIT, RESET, RESET_SPENT and REPAY_DEBT change a budget, with their writes and events.
-- @include budget_figures, event_writer, expiry, int64, new_figures, period, waking
--
-- remaining = allocated - spent - reserved - debt holds after each operation:
-- CREDIT pays debt first. Repaid debt becomes spent, since that consumption is now paid for. allocated and remaining
-- both grow by the
--   whole amount; a negative remaining is filled up before anything can be reserved.
-- DEBIT takes the amount from allocated and remaining, and never makes remaining negative.
-- Neither takes anything from credits: DEBIT leaves what they have, and RESET is refused below it.
-- RESET sets allocated, RESET_SPENT sets allocated and spent; remaining may then be negative.
-- In a budget with a period, both also set the allocation of the periods to come. CREDIT and DEBIT change the current
-- one only.
-- REPAY_DEBT forgives debt, and remaining grows by as much. Any amount beyond the debt is added as funds.

-- The figures after an operation, or nil and a refusal: BUDGET_EXCEEDED, INT64_OVERFLOW. Writes nothing.
local function planned_funding(budget, operation, amount, given_spent)
  local allocated, spent, debt = budget.allocated, budget.spent, budget.debt
  local repaid = int64.less(debt, amount) and debt or amount
  local held = budget.held_by_credits
  if operation == 'CREDIT' then
    allocated, spent, debt = int64.add(allocated, amount), int64.add(spent, repaid), int64.sub(debt, repaid)
  elseif operation == 'DEBIT' then
    if int64.less(budget.remaining, amount)
      or held ~= '0' and int64.less(int64.sub(int64.sub(allocated, spent), held), amount) then
      return nil, { 'BUDGET_EXCEEDED' }
    end
    allocated = int64.sub(allocated, amount)
  elseif operation == 'RESET' then
    allocated = amount
  elseif operation == 'RESET_SPENT' then
    allocated, spent = amount, given_spent == '' and '0' or given_spent
  elseif operation == 'REPAY_DEBT' then
    allocated, debt = int64.add(allocated, int64.sub(amount, repaid)), int64.sub(debt, repaid)
  else
    error('unknown funding operation ' .. operation)
  end
  if (operation == 'RESET' or operation == 'RESET_SPENT') and int64.less(allocated, held) then
    return nil, { 'BUDGET_EXCEEDED' }
  end
  local remaining = allocated and spent and int64.sub(allocated, spent)
  remaining = remaining and int64.sub(remaining, budget.reserved)
  remaining = remaining and int64.sub(remaining, debt)
  if not remaining then
    return nil, { 'INT64_OVERFLOW' }
  end
  return { scope = budget.scope, allocated = allocated, remaining = remaining, reserved = budget.reserved,
    spent = spent, debt = debt, overdraft_limit = budget.overdraft_limit,
    is_over_limit =
      budget_figures.mark_after(budget.is_over_limit, budget.remaining, remaining, debt, budget.overdraft_limit) }
end

-- The reply of a script that has reclaimed due holds, or nil: what is held can have decided what was planned only if
-- something is, and the operation is refused, or leaves nothing in the budget.
local function reclaimed_before(tag, budget, planned, retention_ms, origin)
  if budget.reserved == '0' or planned and int64.positive(planned.remaining) then
    return nil
  end
  return expiry.reclaimed(nil, tag, budget.now, retention_ms, origin)
end

-- Whether the operation sets the allocation of the periods to come, too.
local function sets_period(budget, operation)
  return budget.period_end and (operation == 'RESET' or operation == 'RESET_SPENT')
end

-- Credits are not granted anew in each period. What they have paid of `spent` is not known any more if that is set.
local function period_allocation(budget, planned, operation)
  return period.base_of({ held_by_credits = budget.held_by_credits,
    paid_by_credits = operation == 'RESET' and budget.paid_by_credits or '0' }, planned.allocated)
end

-- Whether the operation changes any figure.
local function funding_changes(budget, planned, operation)
  return planned.allocated ~= budget.allocated or planned.remaining ~= budget.remaining or planned.spent ~= budget.spent
    or planned.debt ~= budget.debt or planned.is_over_limit ~= budget.is_over_limit
    or sets_period(budget, operation) and period_allocation(budget, planned, operation) ~= budget.period_allocated
end

-- `request` is { tenant_id, scope, unit, operation, spent, reason, metadata }. The caller has called require_event_log.
local function apply_funding(tag, budget, planned, request, now, origin)
  local unit, scope, tenant_id, operation = request.unit, request.scope, request.tenant_id, request.operation
  redis.call('HSET', budget.key, 'allocated', planned.allocated, 'remaining', planned.remaining, 'debt', planned.debt,
    'spent', planned.spent, 'is_over_limit', planned.is_over_limit, 'updated_at', now)
  if budget.waiting then
    waking.wake_waiters(budget.key)
  end
  if sets_period(budget, operation) then
    redis.call('HSET', budget.key, 'period_allocated', period_allocation(budget, planned, operation))
  end
  if operation == 'RESET_SPENT' then
    redis.call('HDEL', budget.key, 'paid_by_credits')
  end
  local figures = { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', operation,
    'previous_allocated', budget.allocated, 'new_allocated', planned.allocated, 'previous_remaining', budget.remaining,
    'new_remaining', planned.remaining, 'previous_debt', budget.debt, 'new_debt', planned.debt, 'previous_spent',
    budget.spent, 'new_spent', planned.spent, 'previous_reserved', budget.reserved, 'new_reserved', budget.reserved,
    'previous_status', budget.status, 'new_status', budget.status, 'reason', request.reason, 'metadata',
    request.metadata }
  if operation == 'CREDIT' then
    event_writer.append_event(tag, 'budget.funded', tenant_id, scope, origin, figures)
  elseif operation == 'DEBIT' then
    event_writer.append_event(tag, 'budget.debited', tenant_id, scope, origin, figures)
  elseif operation == 'RESET' then
    event_writer.append_event(tag, 'budget.reset', tenant_id, scope, origin, figures)
  elseif operation == 'RESET_SPENT' then
    figures[#figures + 1] = 'spent_override_provided'
    figures[#figures + 1] = request.spent == '' and '0' or '1'
    event_writer.append_event(tag, 'budget.reset_spent', tenant_id, scope, origin, figures)
  else
    event_writer.append_event(tag, 'budget.debt_repaid', tenant_id, scope, origin, figures)
  end
  new_figures.emit_new_figures(tag, tenant_id, origin, unit, budget, planned)
end

return {
  apply_funding = apply_funding, funding_changes = funding_changes, planned_funding = planned_funding,
  reclaimed_before = reclaimed_before,
}
