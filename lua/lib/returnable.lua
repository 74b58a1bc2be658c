-- returnable: finds the budgets that can take back their share of a hold that cannot be settled.
-- @include budget_figures, int64
--
-- Each budget is checked separately: if one is missing, or has less reserved than the hold, the others still get their
-- share. Returns the refunded budgets, not yet written, and { scope, reason } for the others. A hold without a valid
-- amount, unit, tenant or scopes returns nothing, because what it took is unknown.
local function returnable_budgets(tag, hold)
  local refunded, kept = {}, {}
  if not int64.is_amount(hold.amount) or not hold.unit or hold.subject.defect then
    return refunded, kept
  end
  for _, scope in ipairs(hold.subject.held) do
    local readable, budget = pcall(budget_figures.read_budget, tag, hold.unit, scope)
    if not readable or not budget then
      kept[#kept + 1] = { scope, readable and 'MISSING_BUDGET' or 'INVALID_BUDGET' }
    else
      budget.remaining = int64.add(budget.remaining, hold.amount)
      budget.reserved = int64.sub(budget.reserved, hold.amount)
      if not budget.remaining or not budget.reserved or string.sub(budget.reserved, 1, 1) == '-' then
        kept[#kept + 1] = { scope, 'INVALID_BUDGET' }
      else
        refunded[#refunded + 1] = budget
      end
    end
  end
  return refunded, kept
end

-- Appends to a reply: amount unit returned_count scope* kept_count (scope reason)*.
local function append_returnable(reply, hold, refunded, kept)
  local function put(text)
    reply[#reply + 1] = text
  end
  put(#refunded > 0 and hold.amount or '')
  put(#refunded > 0 and hold.unit or '')
  put(tostring(#refunded))
  for _, budget in ipairs(refunded) do
    put(budget.scope)
  end
  put(tostring(#kept))
  for _, one in ipairs(kept) do
    put(one[1])
    put(one[2])
  end
  return reply
end

return { append_returnable = append_returnable, returnable_budgets = returnable_budgets }
