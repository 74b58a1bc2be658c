-- charge: applies an actual amount to the budgets that hold its estimate, under each overage policy.
-- @include int64: i64_figure, i64_text, i64_add, i64_sub, i64_less, i64_negative, i64_positive, i64_saturating_add
-- @include budget: require_balanced, move_figures, budget_over_limit
-- @include window: window_room, charged_windows
-- @include append_event: append_event
-- @include threshold: crossings_of, emit_crossings
--
-- All scopes are charged the same amount, or none is. Budgets are changed in memory.
-- A window is charged all of it, what becomes debt included, because it limits use. It has no overdraft: what does not remain in it is
-- capped under either policy, but does not mark its scope as over limit, because the window's end is enough to lift it. A scope is marked
-- if what remains in it does not cover the whole overage, even if a window or another scope caps the charge at less than that.

local function floor_zero(amount)
  return string.sub(amount, 1, 1) == '-' and '0' or amount
end

-- The part of `delta` that every capping scope and every window can pay from what remains. Marks the capping scopes that cannot pay all of it.
local function capped_delta(budgets, delta, caps)
  local granted = delta
  for _, budget in ipairs(budgets) do
    if caps(budget) and i64_less(budget.remaining_figure, delta) then
      local available = floor_zero(budget.remaining)
      if i64_less(available, granted) then
        granted = available
      end
      budget.capped = true
    end
    for _, window in ipairs(budget.windows or {}) do
      local room = window_room(window, budget.reserved_figure)
      if i64_less(room, granted) then
        granted = floor_zero(i64_text(room))
      end
    end
  end
  return granted
end

-- Charges one budget in memory: the estimate leaves `reserved`, the funded part of the charge is added to `spent`, the unfunded part
-- to `debt`. Returns false if a figure would leave int64. Takes figures, and the unfunded part as text.
local function charge_budget(budget, estimate, charged, delta, unfunded, marks)
  local former, former_debt, may_enter = budget.remaining_figure, budget.debt_figure, budget.capped or unfunded ~= '0'
  local was_over = may_enter and budget_over_limit(budget)
  local remaining = i64_sub(former, delta)
  local reserved = i64_sub(budget.reserved_figure, estimate)
  local spent = i64_add(budget.spent_figure, unfunded == '0' and charged or i64_sub(charged, unfunded))
  local debt = unfunded == '0' and former_debt or i64_add(former_debt, unfunded)
  local windows = budget.windows and charged_windows(budget.windows, charged)
  if not remaining or not reserved or not spent or not debt or budget.windows and not windows then
    return false
  end
  budget.windows = windows
  if i64_negative(reserved) then
    error('budget ' .. budget.key .. ' holds less than the reservation that leaves it')
  end
  if unfunded ~= '0' then
    budget.debt = i64_text(debt)
    budget.debt_figure = i64_figure(budget.debt)
  end
  budget.debt_incurred = unfunded
  if budget.capped then
    budget.is_over_limit = '1'
  end
  budget.entered_over_limit = may_enter and not was_over and budget_over_limit(budget)
  budget.became_exhausted = i64_positive(former) and not i64_positive(remaining)
  budget.crossings = crossings_of(marks, budget.allocated_figure, former, former_debt, remaining, debt)
  move_figures(budget, remaining, reserved)
  budget.spent = i64_text(spent)
  budget.spent_figure = i64_figure(budget.spent)
  return true
end

local POLICY_CAPS = {
  ALLOW_IF_AVAILABLE = function() return true end,
  -- A scope without an overdraft limit cannot take debt, so it is capped as under ALLOW_IF_AVAILABLE.
  ALLOW_WITH_OVERDRAFT = function(budget) return not i64_positive(budget.overdraft_limit) end,
}

-- Changes every budget in memory and returns the charge { charged, released, overage, debt }, or nil and a refusal: BUDGET_EXCEEDED
-- scope, OVERDRAFT_LIMIT_EXCEEDED scope, INT64_OVERFLOW scope. `marks` are those of lua/lib/threshold.lua.
local function charge_of(budgets, estimate, actual, policy, marks)
  estimate, actual = i64_figure(estimate), i64_figure(actual)
  local delta = i64_sub(actual, estimate)
  local exceeds = i64_positive(delta)
  local overage = exceeds and i64_text(delta) or '0'
  local caps = POLICY_CAPS[policy]
  if exceeds then
    if policy == 'REJECT' then
      return nil, { 'BUDGET_EXCEEDED', budgets[#budgets].scope }
    end
    if not caps then
      error('unknown overage policy ' .. tostring(policy))
    end
    delta = capped_delta(budgets, delta, caps)
  end
  local charged = i64_add(estimate, delta)
  local debt = '0'
  for _, budget in ipairs(budgets) do
    local unfunded = '0'
    -- A charge that is capped at nothing more adds no debt, so a limit that was set below the debt does not refuse it.
    if exceeds and i64_positive(delta) and not caps(budget) and i64_less(budget.remaining_figure, delta) then
      unfunded = i64_sub(i64_text(delta), floor_zero(budget.remaining))
      local total = i64_add(budget.debt, unfunded)
      if not total or i64_less(budget.overdraft_limit, total) then
        return nil, { 'OVERDRAFT_LIMIT_EXCEEDED', budget.scope }
      end
    end
    if not charge_budget(budget, estimate, charged, delta, unfunded, marks) then
      return nil, { 'INT64_OVERFLOW', budget.scope }
    end
    debt = unfunded == '0' and debt or i64_saturating_add(debt, unfunded)
  end
  require_balanced(budgets)
  return { charged = i64_text(charged), released = exceeds and '0' or i64_text(i64_sub(estimate, actual)), overage = overage, debt = debt }
end

-- Whether emit_charge will emit an event.
local function charge_emits(budgets)
  for _, budget in ipairs(budgets) do
    if budget.debt_incurred ~= '0' or budget.entered_over_limit or budget.became_exhausted or budget.crossings then
      return true
    end
  end
  return false
end

-- Emits the events of a charge for each budget. Returns the last entry's id, or nil if there was no event.
local function emit_charge(tag, tenant, budgets, origin, unit, reservation_id, policy)
  local entry
  for _, budget in ipairs(budgets) do
    if budget.debt_incurred ~= '0' then
      entry = append_event(tag, 'budget.debt_incurred', tenant, budget.scope, origin,
        { 'unit', unit, 'reservation_id', reservation_id, 'debt_incurred', budget.debt_incurred,
          'total_debt', budget.debt, 'overdraft_limit', budget.overdraft_limit, 'overage_policy', policy })
    end
    if budget.entered_over_limit then
      entry = append_event(tag, 'budget.over_limit_entered', tenant, budget.scope, origin,
        { 'unit', unit, 'debt', budget.debt, 'overdraft_limit', budget.overdraft_limit, 'is_over_limit', '1' })
    end
    if budget.became_exhausted then
      entry = append_event(tag, 'budget.exhausted', tenant, budget.scope, origin,
        { 'unit', unit, 'reservation_id', reservation_id, 'allocated', budget.allocated,
          'remaining', budget.remaining, 'spent', budget.spent, 'reserved', budget.reserved })
    end
    if budget.crossings then
      entry = emit_crossings(tag, tenant, origin, unit, budget, budget.crossings)
    end
  end
  return entry
end
