-- charging: applies an actual amount to the budgets that hold its estimate, under each overage policy.
-- @include budget_figures, credit_record, credit_turn, event_writer, int64, threshold, window_record
--
-- All scopes are charged the same amount, or none is. Budgets are changed in memory.
-- A window is charged all of it, what becomes debt included, because it limits use. It has no overdraft: what does not
-- remain in it is capped under either policy, but does not mark its scope as over limit, because the window's end is
-- enough to lift it. A scope is marked if what remains in it does not cover the whole overage, even if a window or
-- another scope caps the charge at less than that.

local function floor_zero(amount)
  return string.sub(amount, 1, 1) == '-' and '0' or amount
end

-- The part of `delta` that every capping scope and every window can pay from what remains. Marks the capping scopes
-- that cannot pay all of it.
local function capped_delta(budgets, delta, is_capping)
  local granted = delta
  for _, budget in ipairs(budgets) do
    if is_capping(budget) and int64.less(budget.remaining_figure, delta) then
      local available = floor_zero(budget.remaining)
      if int64.less(available, granted) then
        granted = available
      end
      budget.capped = true
    end
    for _, window in ipairs(budget.windows or {}) do
      local room = window_record.window_room(window, budget.reserved_figure)
      if int64.less(room, granted) then
        granted = floor_zero(int64.text(room))
      end
    end
  end
  return granted
end

-- Charges one budget in memory: the estimate leaves `reserved`, the funded part of the charge is added to `spent`, the
-- unfunded part to `debt`. Returns false if a figure would leave int64. Takes figures, and the unfunded part as text.
-- `made_at` is when the hold was made, and math.huge without one.
local function charge_budget(budget, estimate, charged, delta, unfunded, marks, made_at)
  local former, former_debt, may_enter = budget.remaining_figure, budget.debt_figure, budget.capped or unfunded ~= '0'
  local was_over = may_enter and budget_figures.budget_over_limit(budget)
  local remaining = int64.sub(former, delta)
  local reserved = int64.sub(budget.reserved_figure, estimate)
  local funded, former_allocated = unfunded == '0' and charged or int64.sub(charged, unfunded), budget.allocated_figure
  local spent = int64.add(budget.spent_figure, funded)
  local debt = unfunded == '0' and former_debt or int64.add(former_debt, unfunded)
  local windows = budget.windows and window_record.charged_windows(budget.windows, charged)
  if not remaining or not reserved or not spent or not debt or budget.windows and not windows then
    return false
  end
  budget.windows = windows
  if int64.negative(reserved) then
    error('budget ' .. budget.key .. ' holds less than the reservation that leaves it')
  end
  if budget.credits_text then
    remaining = int64.sub(remaining, credit_record.leave(budget, reserved, made_at, estimate, funded))
  end
  if unfunded ~= '0' then
    budget.debt = int64.text(debt)
    budget.debt_figure = int64.figure(budget.debt)
  end
  budget.debt_incurred = unfunded
  if budget.capped then
    budget.is_over_limit = '1'
  end
  budget.entered_over_limit = may_enter and not was_over and budget_figures.budget_over_limit(budget)
  budget.became_exhausted = int64.positive(former) and not int64.positive(remaining)
  budget.crossings = threshold.crossings_of(marks, budget.allocated_figure, former, former_debt, remaining, debt,
    former_allocated)
  budget_figures.move_figures(budget, remaining, reserved)
  budget.spent = int64.text(spent)
  budget.spent_figure = int64.figure(budget.spent)
  return true
end

-- Whether a scope caps a charge at what remains in it, under each overage policy.
local IS_CAPPING = {
  ALLOW_IF_AVAILABLE = function() return true end,
  -- A scope without an overdraft limit cannot take debt, so it is capped as under ALLOW_IF_AVAILABLE.
  ALLOW_WITH_OVERDRAFT = function(budget) return not int64.positive(budget.overdraft_limit) end,
}

-- Changes every budget in memory and returns the charge { charged, released, overage, debt }, or nil and a refusal:
-- BUDGET_EXCEEDED scope, OVERDRAFT_LIMIT_EXCEEDED scope, INT64_OVERFLOW scope. `marks` are those of
-- lua/lib/threshold.lua.
local function charge_of(budgets, estimate, actual, overage_policy, marks, made_at)
  estimate, actual = int64.figure(estimate), int64.figure(actual)
  local delta = int64.sub(actual, estimate)
  local exceeds = int64.positive(delta)
  local overage = exceeds and int64.text(delta) or '0'
  local is_capping = IS_CAPPING[overage_policy]
  if exceeds then
    if overage_policy == 'REJECT' then
      return nil, { 'BUDGET_EXCEEDED', budgets[#budgets].scope }
    end
    if not is_capping then
      error('unknown overage policy ' .. tostring(overage_policy))
    end
    delta = capped_delta(budgets, delta, is_capping)
  end
  local charged = int64.add(estimate, delta)
  local debt = '0'
  for _, budget in ipairs(budgets) do
    local unfunded = '0'
    -- A charge that is capped at nothing more adds no debt, so a limit that was set below the debt does not refuse it.
    if exceeds and int64.positive(delta) and not is_capping(budget) and int64.less(budget.remaining_figure, delta) then
      unfunded = int64.sub(int64.text(delta), floor_zero(budget.remaining))
      local total = int64.add(budget.debt, unfunded)
      if not total or int64.less(budget.overdraft_limit, total) then
        return nil, { 'OVERDRAFT_LIMIT_EXCEEDED', budget.scope }
      end
    end
    if not charge_budget(budget, estimate, charged, delta, unfunded, marks, made_at) then
      return nil, { 'INT64_OVERFLOW', budget.scope }
    end
    debt = unfunded == '0' and debt or int64.saturating_add(debt, unfunded)
  end
  budget_figures.require_balanced(budgets)
  return { charged = int64.text(charged), released = exceeds and '0' or int64.text(int64.sub(estimate, actual)),
    overage = overage, debt = debt }
end

-- Whether emit_charge will emit an event.
local function charge_emits(budgets)
  for _, budget in ipairs(budgets) do
    if budget.debt_incurred ~= '0' or budget.entered_over_limit or budget.became_exhausted or budget.crossings
      or budget.credit_effects then
      return true
    end
  end
  return false
end

-- Emits the events of a charge for each budget. Returns the last entry's id, or nil if there was no event.
local function emit_charge(tag, tenant, budgets, origin, unit, reservation_id, overage_policy, now)
  local entry
  for _, budget in ipairs(budgets) do
    for _, effects in ipairs(budget.credit_effects or {}) do
      entry = credit_turn.write_effects(tag, tenant, unit, budget.scope, origin, effects, now) or entry
    end
    if budget.debt_incurred ~= '0' then
      entry = event_writer.append_event(tag, 'budget.debt_incurred', tenant, budget.scope, origin,
        { 'unit', unit, 'reservation_id', reservation_id, 'debt_incurred', budget.debt_incurred,
          'total_debt', budget.debt, 'overdraft_limit', budget.overdraft_limit, 'overage_policy', overage_policy })
    end
    if budget.entered_over_limit then
      entry = event_writer.append_event(tag, 'budget.over_limit_entered', tenant, budget.scope, origin,
        { 'unit', unit, 'debt', budget.debt, 'overdraft_limit', budget.overdraft_limit, 'is_over_limit', '1' })
    end
    if budget.became_exhausted then
      entry = event_writer.append_event(tag, 'budget.exhausted', tenant, budget.scope, origin,
        { 'unit', unit, 'reservation_id', reservation_id, 'allocated', budget.allocated,
          'remaining', budget.remaining, 'spent', budget.spent, 'reserved', budget.reserved })
    end
    if budget.crossings then
      entry = threshold.emit_crossings(tag, tenant, origin, unit, budget, budget.crossings)
    end
  end
  return entry
end

return { charge_emits = charge_emits, charge_of = charge_of, emit_charge = emit_charge }
