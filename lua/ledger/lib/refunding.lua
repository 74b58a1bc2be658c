-- refunding: takes what was charged back out of a budget, in memory.
-- @include budget_figures, credit_record, int64, period
--
-- Debt is repaid first, as by a CREDIT; then `spent` goes down. What was spent in a period that has ended since, or was
-- reset, does not stand any more, so nothing of it comes back; debt outlives periods. A window counts less only if it
-- was there at the time of the charge. A credit gets back what it paid, if it still burns.

-- The figure less the amount, but not below 0, and what that took off.
local function lowered(figure, amount)
  local part = int64.less(figure, amount) and figure or amount
  return int64.sub(figure, part), part
end

local function windows_without(windows, amount, charged_at)
  local lower = {}
  for i, window in ipairs(windows) do
    local spent = window.starts <= charged_at and lowered(window.spent, amount) or window.spent
    lower[i] = { name = window.name, limit = window.limit, spent = int64.figure(int64.text(spent)),
      starts = window.starts, ends = window.ends }
  end
  return lower
end

local function is_period_over(budget, charged_at)
  return budget.shared.period_end and period.instant_of(redis.call('HGET', budget.key, 'period_start')) > charged_at
end

-- The field paid_by_credits of a budget that has it, after `amount` of a charge that these credits paid: they get
-- theirs back first, and have never paid more than what is spent.
local function still_paid(budget, paid, before, amount)
  local stored = redis.call('HGET', budget.key, 'paid_by_credits')
  if not stored then
    return nil
  elseif not int64.is_amount(stored) then
    error('corrupt budget record ' .. budget.key .. ': its paid_by_credits is no amount')
  end
  local left = lowered(stored, credit_record.refunded_share(paid, before, amount))
  return int64.text(int64.less(budget.spent, left) and budget.spent or left)
end

-- Changes a copy of a shared budget, the `number`th of those that were charged. Its `returned` is by how much its
-- `remaining` grows, and `paid_by_credits` is that field of its record, if it has one. Returns what credits got back,
-- as lua/lib/credit_record.lua writes it.
local function take_out(budget, amount, charge, number)
  local charged_at, given = charge.charged_at, ''
  local debt, repaid = lowered(budget.debt, amount)
  local spent, unspent = budget.spent_figure, 0
  local paid, standing = credit_record.paid_at(charge.credits, number), {}
  if not is_period_over(budget, charged_at) then
    standing = paid
    spent, unspent = lowered(spent, int64.sub(amount, repaid))
  end
  local returned, former = int64.add(repaid, unspent), budget.remaining
  budget.returned, budget.debt, budget.spent = int64.text(returned), int64.text(debt), int64.text(spent)
  budget.debt_figure, budget.spent_figure = int64.figure(budget.debt), int64.figure(budget.spent)
  budget.windows = budget.windows and windows_without(budget.windows, amount, charged_at)
  budget_figures.move_figures(budget, int64.figure(int64.text(int64.add(former, returned))), budget.reserved_figure)
  budget.paid_by_credits = still_paid(budget, standing, charge.refunded, amount)
  -- If a RESET took more from the base than it had, that comes back first.
  local room = int64.sub(int64.sub(budget.allocated, budget.spent), period.held_by_credits(budget))
  if budget.credits_text and #paid > 0 and int64.positive(room) then
    unspent = int64.less(room, unspent) and room or unspent
    budget.credits_text, given =
      credit_record.refund(budget.credits_text, paid, charge.refunded, amount, unspent)
  end
  if budget.returned ~= '0' then
    budget.is_over_limit =
      budget_figures.mark_after(budget.is_over_limit, former, budget.remaining, budget.debt, budget.overdraft_limit)
  end
  return given
end

return { take_out = take_out }
