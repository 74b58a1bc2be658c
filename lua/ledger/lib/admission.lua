-- admission: what reserve, decide and direct_debit share: the budgets that a request draws on, and the reasons to refuse it.
-- @include brief_figures, budget_figures, budget_templates, int64, keys, period, shared_budgets, template_record, units,
--           window_record
--
-- `scopes` are the derived scopes, root first. A refusal is a list: a status word, then its details.
local OVERAGE_POLICIES = { REJECT = true, ALLOW_IF_AVAILABLE = true, ALLOW_WITH_OVERDRAFT = true }

-- The budgets of the scopes in this unit, root first, and a mask of the scopes that have one. The group shares the budgets. Those that the
-- tenant's templates would make are among them, each with its `birth`, and are the third value if there are any. The fourth value is the
-- reply of the script if one of these templates has no boundaries left, after which the service plans others and calls again.
local function budgets_at(group, tag, unit, scopes, tenant_id, tenant, now)
  local budgets, count, mask, unborn = {}, 0, '', nil
  local templates = tenant and tenant.templates
  for i = 1, #scopes do
    local budget = shared_budgets.budget(group, tag, unit, scopes[i])
    if not budget and templates then
      local birth = budget_templates.birth_at(tag, tenant_id, templates, unit, scopes[i], now)
      if birth and birth.is_unplanned then
        return budgets, mask, unborn, { 'UNPLANNED', tenant_id, birth.template_id }
      elseif birth then
        budget = shared_budgets.parse(birth.key, scopes[i], template_record.fields_of(birth))
        unborn, budget.birth = unborn or {}, birth
        unborn[#unborn + 1] = budget
      end
    end
    if budget then
      count = count + 1
      budgets[count] = budget
    end
    mask = mask .. (budget and '1' or '0')
  end
  return budgets, mask, unborn
end

-- The refusal if no scope has a budget in the unit: UNIT_MISMATCH if a scope has one in another unit, else NOT_FOUND.
local function missing_budget(tag, scopes)
  for i = #scopes, 1, -1 do
    local others = {}
    for _, other in ipairs(units.ALL) do
      if redis.call('EXISTS', keys.budget(tag, other, scopes[i])) == 1 then
        others[#others + 1] = other
      end
    end
    if #others > 0 then
      return { 'UNIT_MISMATCH', scopes[i], unpack(others) }
    end
  end
  return { 'NOT_FOUND' }
end

-- The refusal of the first budget that is frozen or closed, or nil.
local function stopped_budget(budgets)
  for _, budget in ipairs(budgets) do
    if budget.status ~= 'ACTIVE' then
      return { budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN', budget.scope, int64.text(budget.remaining_figure) }
    end
  end
  return nil
end

-- What may be held in the next period of a budget, as the record says, once all that is held now has ended; or nil without one.
local function next_limit(budget, now)
  if not budget.period_end or budget.birth then
    return nil
  end
  local current = period.read_period(budget.key, budget.scope)
  local states = period.states_until(current, now)
  local following = period.states_until(states[#states] or current, (states[#states] or current).ends)
  local coming = following[#following]
  return coming and int64.saturating_add(coming.remaining, coming.reserved)
end

-- The refusal of the first budget with less remaining than the amount, or nil. If only a window of it is short, the refusal has what
-- remains there, and the window's name. Last stands what waiting can bring: the limit of that window, or that of the budget's next period.
local function short_budget(budgets, amount, now)
  local wanted = int64.figure(amount)
  for _, budget in ipairs(budgets) do
    if int64.less(budget.remaining_figure, wanted) then
      local refusal = { 'BUDGET_EXCEEDED', budget.scope, int64.text(budget.remaining_figure) }
      local is_known, limit = pcall(next_limit, budget, now)
      if is_known and limit then
        refusal[4], refusal[5] = '', limit
      end
      return refusal
    end
    if budget.windows then
      local name, room, limit = window_record.short_window(budget.windows, budget.reserved_figure, wanted)
      if name then
        return { 'BUDGET_EXCEEDED', budget.scope, room, name, int64.text(limit) }
      end
    end
  end
  return nil
end

-- Whether the budget is the reason, or one of them, to refuse a hold that lacks funds. What `hold_refusal` asks of all budgets, in one.
local function lacks_funds(budget, wanted)
  return int64.less(budget.remaining_figure, wanted) or budget_figures.budget_over_limit(budget)
    or int64.positive(budget.debt) and not int64.positive(budget.overdraft_limit)
    or budget.windows and window_record.short_window(budget.windows, budget.reserved_figure, wanted)
end

-- The fast path, which nearly every request takes: true if all budgets are plain and nothing refuses the amount. False decides
-- nothing.
local function has_room(budgets, wanted)
  if type(wanted) ~= 'number' then
    return false
  end
  for i = 1, #budgets do
    local budget = budgets[i]
    if not budget.is_plain or budget.status ~= 'ACTIVE' or budget.remaining_figure < wanted then
      return false
    end
  end
  return true
end

-- Why the amount cannot be held, or nil. Precedence: status, over-limit, debt, amount; root first within each.
local function hold_refusal(budgets, amount, now)
  if has_room(budgets, int64.figure(amount)) then
    return nil
  end
  local stopped = stopped_budget(budgets)
  if stopped then
    return stopped
  end
  for _, budget in ipairs(budgets) do
    if budget_figures.budget_over_limit(budget) then
      return { 'OVERDRAFT_LIMIT_EXCEEDED', budget.scope, int64.text(budget.remaining_figure) }
    end
  end
  for _, budget in ipairs(budgets) do
    if int64.positive(budget.debt) and not int64.positive(budget.overdraft_limit) then
      return { 'DEBT_OUTSTANDING', budget.scope, int64.text(budget.remaining_figure) }
    end
  end
  return short_budget(budgets, amount, now)
end

-- Precedence: the request's own overage policy, the governing policy's, the deepest budget's, the tenant's, the protocol's default.
local function overage_policy_of(requested, policy, budgets, tenant)
  if requested ~= '' then
    return requested
  end
  if policy and policy.overage_policy then
    return policy.overage_policy
  end
  local inherited = tenant and tenant.overage_policy or 'ALLOW_IF_AVAILABLE'
  for _, budget in ipairs(budgets) do
    inherited = budget.commit_overage_policy or inherited
  end
  return inherited
end

-- Appends the balances in an idempotency record to a replayed reply. The record has a mask of the scopes, and a balance for each
-- scope in it.
local function with_balances(reply, scopes, parts, mask_at)
  local mask, figure = parts[mask_at], mask_at + 1
  for i = 1, #mask do
    if string.sub(mask, i, i) == '1' then
      reply[#reply + 1] = scopes[i]
      reply[#reply + 1] = brief_figures.full_balance(parts[figure])
      figure = figure + 1
    end
  end
  return reply
end

return {
  OVERAGE_POLICIES = OVERAGE_POLICIES, budgets_at = budgets_at, hold_refusal = hold_refusal,
  lacks_funds = lacks_funds, missing_budget = missing_budget, overage_policy_of = overage_policy_of,
  short_budget = short_budget, stopped_budget = stopped_budget, with_balances = with_balances,
}
