-- brief_figures: the short form of balances in idempotency records.
-- @include int64
--
-- Most budgets have no debt, no overdraft limit and are not over a limit. Then a balance is stored as what remains, is
-- reserved and is spent, because what is allocated is their sum: as three numbers, or as a text with two commas if one
-- is too large for a number. Every other balance is stored as it is, with its six commas.

-- Whether a balance with these figures has a short form. A figure with a leading zero was written by somebody else.
local function is_brief(allocated, debt, overdraft_limit, is_over_limit)
  return debt == '0' and overdraft_limit == '0' and is_over_limit == '0'
    and (allocated == '0' or string.byte(allocated) ~= 48)
end

-- What is stored of the balance of a budget of lua/lib/shared_budgets.lua, whose text is `text`.
local function stored_balance(budget, text)
  if not budget.is_brief then
    return text
  end
  local remaining, reserved, spent = budget.remaining_figure, budget.reserved_figure, budget.spent_figure
  if type(remaining) == 'number' and type(reserved) == 'number' and type(spent) == 'number' then
    return { remaining, reserved, spent }
  end
  return budget.moving_text
end

-- What is stored of a balance of which only the text is known.
local function stored_balance_text(text)
  local remaining, reserved, spent, allocated, debt, limit, over =
    string.match(text, '^(%-?%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d)$')
  if not remaining or not is_brief(allocated, debt, limit, over) then
    return text
  elseif #remaining <= 15 and #reserved <= 15 and #spent <= 15 then
    return { tonumber(remaining), tonumber(reserved), tonumber(spent) }
  end
  return remaining .. ',' .. reserved .. ',' .. spent
end

-- The balance whose short form, as lua/lib/idempotency_record.lua returns it, this may be.
local function full_balance(text)
  local remaining, reserved, spent = string.match(text, '^(%-?%d+),(%d+),(%d+)$')
  if not remaining then
    return text
  end
  return text .. ',' .. int64.text(int64.add(int64.add(remaining, reserved), spent)) .. ',0,0,0'
end

return {
  full_balance = full_balance, is_brief = is_brief, stored_balance = stored_balance,
  stored_balance_text = stored_balance_text,
}
