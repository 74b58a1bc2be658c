-- funds: whether budgets have an amount, and why not.
-- @include budget_figures, int64, period, window_record
--
-- A refusal is a list: a status word, the scope, and what remains there.

local function refusal_at(word, budget)
  return { word, budget.scope, int64.text(budget.remaining_figure) }
end

local function is_in_debt(budget)
  return int64.positive(budget.debt) and not int64.positive(budget.overdraft_limit)
end

-- The refusal of the first budget that is frozen or closed, or nil.
local function stopped_budget(budgets)
  for _, budget in ipairs(budgets) do
    if budget.status ~= 'ACTIVE' then
      return refusal_at(budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN', budget)
    end
  end
  return nil
end

-- What may be held in the next period of a budget, once all that is held now has ended; or nil without one.
local function next_limit(budget, now)
  if not budget.period_end or budget.birth then
    return nil
  end
  local current = period.read_period(budget.key, budget.scope)
  -- The record has not what earlier calls of the run have changed.
  current.remaining, current.reserved = int64.text(budget.remaining_figure), int64.text(budget.reserved_figure)
  current.allocated, current.held_by_credits = budget.allocated, period.held_by_credits(budget)
  current.spent, current.debt, current.is_over_limit = int64.text(budget.spent_figure), budget.debt,
    budget.is_over_limit
  local states = period.states_until(current, now)
  local following = period.states_until(states[#states] or current, (states[#states] or current).ends)
  local coming = following[#following]
  local limit = coming and int64.saturating_add(coming.remaining, coming.reserved)
  for _, window in ipairs(limit and budget.windows or {}) do
    limit = int64.less(window.limit, int64.figure(limit)) and int64.text(window.limit) or limit
  end
  return limit
end

-- The refusal of the first budget with less remaining than the amount, or nil. If only a window of it is short, the
-- refusal has what remains there, and the window's name. Last stands what waiting can bring: the limit of that window,
-- or that of the budget's next period.
local function short_budget(budgets, amount, now)
  local wanted = int64.figure(amount)
  for _, budget in ipairs(budgets) do
    if int64.less(budget.remaining_figure, wanted) then
      local refusal = refusal_at('BUDGET_EXCEEDED', budget)
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

-- Whether the budget is the reason, or one of them, to refuse a hold that lacks funds. What `hold_refusal` asks of all
-- budgets, in one.
local function lacks_funds(budget, wanted)
  return int64.less(budget.remaining_figure, wanted) or budget_figures.budget_over_limit(budget) or is_in_debt(budget)
    or budget.windows and window_record.short_window(budget.windows, budget.reserved_figure, wanted)
end

-- The fast path, which nearly every request takes: true if all budgets are plain and nothing refuses the amount. False
-- decides nothing.
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
      return refusal_at('OVERDRAFT_LIMIT_EXCEEDED', budget)
    end
  end
  for _, budget in ipairs(budgets) do
    if is_in_debt(budget) then
      return refusal_at('DEBT_OUTSTANDING', budget)
    end
  end
  return short_budget(budgets, amount, now)
end

return {
  hold_refusal = hold_refusal, lacks_funds = lacks_funds, refusal_at = refusal_at, short_budget = short_budget,
  stopped_budget = stopped_budget,
}
