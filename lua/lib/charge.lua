-- charge: what an actual amount does to the budgets that hold an estimate, under each overage policy.
-- @include int64, budget, append_event
--
-- All scopes are charged the same amount, or none is. Nothing is written here before write_charge.

local function floor_zero(amount)
  return string.sub(amount, 1, 1) == '-' and '0' or amount
end

-- The part of `delta` that every capping scope can pay from what remains; marks the capping scopes that cannot pay it all.
local function capped_delta(budgets, delta, caps)
  local granted = delta
  for _, budget in ipairs(budgets) do
    if caps(budget) and i64_less(budget.remaining, delta) then
      local available = floor_zero(budget.remaining)
      if i64_less(available, granted) then
        granted = available
      end
      budget.capped = true
    end
  end
  return granted
end

-- Charges one budget in memory: the estimate leaves `reserved`, the charge enters `spent`, what is unfunded becomes `debt`.
-- Returns false when a figure would leave int64.
local function charge_budget(budget, estimate, charged, delta, unfunded)
  local had_some = i64_positive(budget.remaining)
  local was_over = budget_over_limit(budget)
  budget.reserved = i64_sub(budget.reserved, estimate)
  if unfunded == '0' then
    budget.spent = i64_add(budget.spent, charged)
  else
    budget.spent = i64_add(budget.spent, i64_sub(charged, unfunded))
    budget.debt = i64_add(budget.debt, unfunded)
  end
  budget.remaining = i64_sub(budget.remaining, delta)
  if not budget.reserved or not budget.spent or not budget.debt or not budget.remaining then
    return false
  end
  if string.sub(budget.reserved, 1, 1) == '-' then
    error('budget ' .. budget.key .. ' holds less than the reservation that leaves it')
  end
  budget.debt_incurred = unfunded
  if budget.capped then
    budget.is_over_limit = '1'
  end
  budget.entered_over_limit = not was_over and budget_over_limit(budget)
  budget.became_exhausted = had_some and not i64_positive(budget.remaining)
  return true
end

local POLICY_CAPS = {
  ALLOW_IF_AVAILABLE = function() return true end,
  -- A scope without an overdraft limit cannot take debt, so it caps as ALLOW_IF_AVAILABLE does.
  ALLOW_WITH_OVERDRAFT = function(budget) return not i64_positive(budget.overdraft_limit) end,
}

-- Returns the charge { charged, released, overage, debt } with every budget changed in memory, or nil and a refusal:
-- BUDGET_EXCEEDED scope, OVERDRAFT_LIMIT_EXCEEDED scope, INT64_OVERFLOW scope.
local function charge_of(budgets, estimate, actual, policy)
  local delta = i64_sub(actual, estimate)
  local exceeds = i64_positive(delta)
  local overage = exceeds and delta or '0'
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
    if exceeds and not caps(budget) and i64_less(budget.remaining, delta) then
      unfunded = i64_sub(delta, floor_zero(budget.remaining))
      local total = i64_add(budget.debt, unfunded)
      if not total or i64_less(budget.overdraft_limit, total) then
        return nil, { 'OVERDRAFT_LIMIT_EXCEEDED', budget.scope }
      end
    end
    if not charge_budget(budget, estimate, charged, delta, unfunded) then
      return nil, { 'INT64_OVERFLOW', budget.scope }
    end
    debt = i64_saturating_add(debt, unfunded)
  end
  return { charged = charged, released = exceeds and '0' or i64_sub(estimate, actual), overage = overage, debt = debt }
end

local function write_charge(budget)
  if budget.debt_incurred == '0' and not budget.capped then
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved, 'spent', budget.spent)
  else
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved, 'spent', budget.spent,
      'debt', budget.debt, 'is_over_limit', budget.is_over_limit)
  end
end

-- Whether tell_charge will have anything to tell.
local function tells_of_charge(budgets)
  for _, budget in ipairs(budgets) do
    if budget.debt_incurred ~= '0' or budget.entered_over_limit or budget.became_exhausted then
      return true
    end
  end
  return false
end

-- Tells what the charge did to each budget. Returns the last entry's id, or nil when there was nothing to tell.
local function tell_charge(tag, tenant, budgets, origin, unit, reservation_id, policy)
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
  end
  return entry
end
