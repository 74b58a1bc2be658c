-- brief_figures: the short form of balances in idempotency records.
-- @include int64: i64_add, i64_text
--
-- Most budgets have no debt, no overdraft limit and are not over a limit. Then a balance is stored as what remains, is reserved and is
-- spent: what is allocated is their sum. Every other balance is stored as it is, with its six commas.

-- Whether a balance with these figures has a short form. A figure with a leading zero was written by somebody else.
local function is_brief(allocated, debt, overdraft_limit, is_over_limit)
  return debt == '0' and overdraft_limit == '0' and is_over_limit == '0' and (allocated == '0' or string.byte(allocated) ~= 48)
end

local function brief_balance(text)
  local head, allocated, debt, limit, over = string.match(text, '^(%-?%d+,%d+,%d+),(%d+),(%d+),(%d+),(%d)$')
  return head and is_brief(allocated, debt, limit, over) and head or text
end

-- The balance whose short form this may be.
local function full_balance(text)
  local remaining, reserved, spent = string.match(text, '^(%-?%d+),(%d+),(%d+)$')
  if not remaining then
    return text
  end
  return text .. ',' .. i64_text(i64_add(i64_add(remaining, reserved), spent)) .. ',0,0,0'
end
