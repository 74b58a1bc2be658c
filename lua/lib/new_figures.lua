-- new_figures: the events that follow when funding or a new period gives a budget other figures.
-- @include budget_figures, event_writer, int64, over_limit, threshold

-- `former` and `budget` are the budget's states, each with its scope and all figures.
local function emit_new_figures(tag, tenant, origin, unit, former, budget)
  over_limit.emit_over_limit(tag, tenant, budget.scope, origin, unit, budget_figures.budget_over_limit(former),
    budget_figures.budget_over_limit(budget), budget.debt,
    budget.overdraft_limit)
  if int64.positive(former.remaining) and not int64.positive(budget.remaining) then
    event_writer.append_event(tag, 'budget.exhausted', tenant, budget.scope, origin,
      { 'unit', unit, 'allocated', budget.allocated, 'remaining', budget.remaining, 'spent', budget.spent, 'reserved',
      budget.reserved })
  end
  threshold.emit_crossings_between(tag, tenant, origin, unit, former, budget)
end

return { emit_new_figures = emit_new_figures }
