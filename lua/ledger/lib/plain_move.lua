-- plain_move: the short way to change budgets, which nearly every reserve and commit can take.
-- @include threshold
--
-- A move adds three numbers to `remaining`, `reserved` and `spent`. It is plain if all figures of each budget are
-- numbers before and after it, no debt and no limit takes part, and no event follows. Then sums of doubles are exact,
-- and no copy of a budget is needed.
-- Anything else takes the long way, which decides everything itself.

-- Whether the budgets can make this move as a plain one. Changes nothing. `marks` are those of lua/lib/threshold.lua.
local function moves_plainly(budgets, marks, by_remaining, by_reserved, by_spent)
  local lowest, lowest_amount = marks.lowest, marks.lowest_amount
  for i = 1, #budgets do
    local budget = budgets[i]
    local former, allocated = budget.remaining_figure, budget.allocated_figure
    -- What leaves a budget with credits may change these.
    if not budget.is_plain or by_reserved <= 0 and budget.credits_text then
      return false
    end
    local remaining, reserved, spent = former + by_remaining, budget.reserved_figure + by_reserved,
      budget.spent_figure + by_spent
    -- None is negative, so none exceeds `allocated`, which has at most 15 digits.
    if remaining < 0 or reserved < 0 or spent < 0 or remaining ~= allocated - spent - reserved
      or remaining == 0 and former > 0 then
      return false
    end
    -- Nearly every budget is below the lowest marks, before and after.
    local used, former_used = allocated - remaining, allocated - former
    if (used / allocated >= lowest or former_used / allocated >= lowest or used >= lowest_amount
      or former_used >= lowest_amount)
      and threshold.crossings_of(marks, allocated, former, 0, remaining, 0) then
      return false
    end
  end
  return true
end

return { moves_plainly = moves_plainly }
