-- budget_figures: one ledger, a hash per (scope, unit).
-- SHAPE balance = remaining,reserved,spent,allocated,debt,overdraft_limit,is_over_limit:flag
-- @include int64, keys
--
-- remaining = allocated - spent - reserved - debt holds in every record after every script, and only remaining may be
-- negative.
-- require_balanced checks this for each record that a decision starts from, and again before figures are written.
-- `remaining_figure` is `remaining` as a figure of lua/lib/int64.lua, and so on. Most decisions use these.
-- A figure outside int64 was not written by this service: the script ends with an error, before any write.
local FIGURES_FORM = '^%-?%d+,%d+,%d+,%d+,%d+,%d+$'

-- The figures of a record, its status, its overage policy, whether reserves wait for its funds, the end of its period,
-- its windows, and its credits.
-- Few budgets have one of the last four, and only those are read twice.
local function budget_fields(key)
  local f = redis.call('HMGET', key, 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit',
    'is_over_limit', 'status', 'commit_overage_policy', 'extras')
  if f[10] then
    local extras = redis.call('HMGET', key, 'waiting', 'period_end', 'windows', 'credits')
    f[10], f[11], f[12], f[13] = extras[1], extras[2], extras[3], extras[4]
  end
  return f
end

-- The budget with these fields, or nil if it does not exist.
local function parse_budget(key, scope, f)
  if not f[8] then
    if f[1] or f[4] then
      error('corrupt budget record ' .. key)
    end
    return nil
  end
  if not (f[1] and f[2] and f[3] and f[4] and f[5] and f[6]) then
    error('corrupt budget record ' .. key)
  end
  local figures = table.concat(f, ',', 1, 6)
  if not string.find(figures, FIGURES_FORM) then
    error('corrupt budget record ' .. key)
  end
  -- If one of the six figures has 19 digits, they take at least 29 characters, so nearly every budget skips this.
  if #figures >= 29 then
    for i = 1, 6 do
      if #f[i] > 18 and int64.add(f[i], '0') ~= f[i] then
        error('corrupt budget record ' .. key)
      end
    end
  end
  return {
    key = key, scope = scope, remaining_figure = int64.figure(f[1]),
    reserved_figure = int64.figure(f[2]), spent_figure = int64.figure(f[3]),
    allocated_figure = int64.figure(f[4]), debt_figure = int64.figure(f[5]),
    remaining = f[1], reserved = f[2], spent = f[3], allocated = f[4], debt = f[5], overdraft_limit = f[6],
    is_over_limit = f[7] or '0', status = f[8], commit_overage_policy = f[9] or nil, waiting = f[10],
    period_end = f[11] or nil, windows_text = f[12] or nil, credits_text = f[13] or nil,
  }
end

-- A copy to change, of a budget that has no texts of the figures that most calls change. Written out, because this is
-- several times as fast as a loop or a table that grows.
local function copy_budget(budget)
  return {
    key = budget.key, scope = budget.scope, remaining_figure = budget.remaining_figure,
    reserved_figure = budget.reserved_figure,
    spent_figure = budget.spent_figure, allocated_figure = budget.allocated_figure, debt_figure = budget.debt_figure,
    remaining = int64.text(budget.remaining_figure), reserved = int64.text(budget.reserved_figure),
    spent = int64.text(budget.spent_figure), allocated = budget.allocated, debt = budget.debt,
    overdraft_limit = budget.overdraft_limit, is_over_limit = budget.is_over_limit,
    status = budget.status, commit_overage_policy = budget.commit_overage_policy,
    waiting = budget.waiting, became_exhausted = false, windows = budget.windows,
    credits_text = budget.credits_text,
    shared = budget,
  }
end

-- The budget at a scope, or nil if the scope has none in this unit.
local function read_budget(tag, unit, scope)
  local key = keys.budget(tag, unit, scope)
  return parse_budget(key, scope, budget_fields(key))
end

-- The figures of a budget as texts, to change.
local function figures_of(budget)
  return { scope = budget.scope, allocated = budget.allocated, remaining = budget.remaining,
    reserved = budget.reserved, spent = budget.spent, debt = budget.debt, overdraft_limit = budget.overdraft_limit,
    is_over_limit = budget.is_over_limit, status = budget.status }
end

-- Sets both figures in memory.
local function move_figures(budget, remaining, reserved)
  budget.remaining, budget.reserved = int64.text(remaining), int64.text(reserved)
  budget.remaining_figure, budget.reserved_figure = remaining, reserved
end

-- Whether the figures satisfy the invariant. Doubles hold sums of figures of 15 digits exactly.
local function is_balanced(remaining, reserved, spent, allocated, debt)
  if type(remaining) == 'number' and type(reserved) == 'number' and type(spent) == 'number'
    and type(allocated) == 'number'
    and type(debt) == 'number' then
    return remaining == allocated - spent - reserved - debt
      and reserved >= 0 and spent >= 0 and allocated >= 0 and debt >= 0
  end
  -- In this order, the terms leave int64 only if remaining itself does.
  local rest = int64.sub(allocated, spent)
  rest = rest and int64.sub(rest, reserved)
  rest = rest and int64.sub(rest, debt)
  return rest and int64.text(rest) == int64.text(remaining)
    and not (int64.negative(reserved) or int64.negative(spent) or int64.negative(allocated) or int64.negative(debt))
end

-- Ends the script if a budget is out of balance, as it was read or as it is about to be written. Called before the
-- first write.
local function require_balanced(budgets)
  for i = 1, #budgets do
    local budget = budgets[i]
    if not is_balanced(budget.remaining_figure, budget.reserved_figure, budget.spent_figure, budget.allocated_figure,
      budget.debt_figure) then
      error('corrupt budget record ' .. budget.key .. ': remaining is not allocated - spent - reserved - debt')
    end
  end
end

-- The form in which scripts return a balance and idempotency records store it.
local function balance_text(budget)
  return budget.remaining .. ',' .. budget.reserved .. ',' .. budget.spent .. ',' .. budget.allocated .. ','
    .. budget.debt .. ',' .. budget.overdraft_limit .. ',' .. budget.is_over_limit
end

-- True if the debt exceeds an overdraft limit above 0, or if a capped charge marked the scope.
local function budget_over_limit(budget)
  if budget.is_over_limit == '1' then
    return true
  end
  return int64.positive(budget.overdraft_limit) and int64.less(budget.overdraft_limit, budget.debt)
end

-- True if the debt exceeds an overdraft limit above 0.
local function debt_over_limit(debt, overdraft_limit)
  return int64.positive(overdraft_limit) and int64.less(overdraft_limit, debt)
end

-- The mark of a budget that funds were added to or taken from. A capped charge marks a scope that ran out of funds. Any
-- change that leaves or adds funds clears the mark, but debt above its limit stays over limit.
local function mark_after(mark, former_remaining, remaining, debt, overdraft_limit)
  if debt_over_limit(debt, overdraft_limit) then
    return '1'
  end
  return (int64.positive(remaining) or int64.less(former_remaining, remaining)) and '0' or mark
end

return {
  balance_text = balance_text, budget_fields = budget_fields, budget_over_limit = budget_over_limit,
  copy_budget = copy_budget, debt_over_limit = debt_over_limit, figures_of = figures_of, is_balanced = is_balanced,
  mark_after = mark_after, move_figures = move_figures, parse_budget = parse_budget,
  read_budget = read_budget, require_balanced = require_balanced,
}
