-- new_figures: the events that follow when funding or a new period gives a budget other figures.
-- @include int64: i64_positive
-- @include budget: budget_over_limit
-- @include over_limit: emit_over_limit
-- @include threshold: emit_crossings_between
-- @include append_event: append_event

-- `former` and `budget` are the budget's states, each with its scope and all figures.
local function emit_new_figures(tag, tenant, origin, unit, former, budget)
  emit_over_limit(tag, tenant, budget.scope, origin, unit, budget_over_limit(former), budget_over_limit(budget), budget.debt,
    budget.overdraft_limit)
  if i64_positive(former.remaining) and not i64_positive(budget.remaining) then
    append_event(tag, 'budget.exhausted', tenant, budget.scope, origin,
      { 'unit', unit, 'allocated', budget.allocated, 'remaining', budget.remaining, 'spent', budget.spent, 'reserved', budget.reserved })
  end
  emit_crossings_between(tag, tenant, origin, unit, former, budget)
end
