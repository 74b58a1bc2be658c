-- shared_budgets: the budgets that the calls of a run read and change. Each is read once, and written once at the end
-- of the run.
-- @include brief_figures, budget_figures, credit_record, credit_turn, int64, keys, rollover, run_time, waking,
--          window_record, window_turn
--
-- A shared budget is one that budget_figures.parse_budget has returned, but for the three figures that nearly every
-- call changes. Of `remaining`, `reserved` and `spent` it has
--   `remaining_figure`, `reserved_figure`, `spent_figure`: what decisions use
--   `moving_text`: the same as 'remaining,reserved,spent', formatted once for reply, idempotency record and write
-- and of its other figures, which few calls change:
--   `lasting_text`: the end of its balance, from the comma on
--   `is_brief`: whether idempotency records have its short form
--   `is_plain`: what lua/ledger/lib/plain_move.lua needs: neither debt nor windows, all figures numbers, nothing over a
--   limit
-- INVARIANT: these agree with each other. Only set_moving and note_lasting set them, and test/property/groups.test.ts
-- checks it.
--
-- Why texts beside figures: a balance that is concatenated from its seven figures wherever it is needed costs a reserve
-- at three scopes 48,000 instructions more alone in a run and 83,000 more with 16 in a run, of 588,000 and 279,000
-- (docs/adr/0022-what-a-reserve-and-a-commit-cost.md).

-- Sets the three figures with their text.
local function set_moving(budget, remaining, reserved, spent, text)
  budget.remaining_figure, budget.reserved_figure, budget.spent_figure, budget.moving_text =
    remaining, reserved, spent, text
end

-- Sets what follows from the other figures.
local function note_lasting(budget)
  budget.lasting_text = ',' .. budget.allocated .. ',' .. budget.debt .. ',' .. budget.overdraft_limit .. ','
    .. budget.is_over_limit
  budget.is_brief = brief_figures.is_brief(budget.allocated, budget.debt, budget.overdraft_limit, budget.is_over_limit)
  budget.is_plain = budget.debt_figure == 0 and not budget.windows and budget.is_over_limit == '0'
    and type(budget.allocated_figure) == 'number'
    and budget.allocated_figure > 0 and type(budget.remaining_figure) == 'number' and budget.remaining_figure >= 0
    and type(budget.reserved_figure) == 'number' and type(budget.spent_figure) == 'number'
end

-- The budget with these fields of its record, or nil if there is none.
local function parse_shared(key, scope, fields)
  local budget = budget_figures.parse_budget(key, scope, fields)
  if not budget then
    return nil
  end
  budget_figures.require_balanced({ budget })
  budget.moving_text = budget.remaining .. ',' .. budget.reserved .. ',' .. budget.spent
  budget.remaining, budget.reserved, budget.spent = nil, nil, nil
  budget.windows = budget.windows_text and window_record.parse_windows(key, budget.windows_text)
  note_lasting(budget)
  return budget
end

-- Budgets that earlier runs have parsed, by key, about a kilobyte each. INVARIANT: a run uses one only if it equals the
-- record, all of whose fields each run reads. So it does not matter who has changed the record since, or whether the
-- run that changed the budget was written at all.
-- Without them, a lone reserve at three scopes costs Redis 707,000 instructions instead of 577,000, and one of 16 in a
-- run 281,000 instead of 271,000.
local BUDGETS_KEPT = 1000
local kept, kept_count = {}, 0

local function keep(key, budget)
  if not kept[key] then
    if kept_count == BUDGETS_KEPT then
      kept, kept_count = {}, 0
    end
    kept_count = kept_count + 1
  end
  kept[key] = budget
end

-- Whether the figures that few calls change, and the rest of the record, are those of the budget.
local function is_same_otherwise(budget, f)
  return budget.allocated == f[4] and budget.debt == f[5] and budget.overdraft_limit == f[6]
    and budget.is_over_limit == (f[7] or '0')
    and budget.status == f[8] and budget.commit_overage_policy == (f[9] or nil) and budget.period_end == (f[11] or nil)
    and budget.windows_text == (f[12] or nil) and budget.credits_text == (f[13] or nil)
end

-- Gives a plain budget the three figures of its record, if these are as plain. Returns whether it has them now.
local function take_moving(budget, f, text)
  if not budget.is_plain or not string.find(text, '^%d+,%d+,%d+$') then
    return false
  end
  local remaining, reserved, spent = int64.figure(f[1]), int64.figure(f[2]), int64.figure(f[3])
  if type(remaining) ~= 'number' or type(reserved) ~= 'number' or type(spent) ~= 'number'
    or not budget_figures.is_balanced(remaining, reserved, spent, budget.allocated_figure, 0) then
    return false
  end
  set_moving(budget, remaining, reserved, spent, text)
  return true
end

-- Whether the kept budget equals the record with these fields, after an update of the figures that other runs change
-- most.
local function bring_up_to_date(budget, f)
  if not (f[1] and f[2] and f[3]) or not is_same_otherwise(budget, f) then
    return false
  end
  budget.waiting = f[10]
  local text = f[1] .. ',' .. f[2] .. ',' .. f[3]
  return budget.moving_text == text or take_moving(budget, f, text)
end

-- The fields of a budget's record, after what time has made due. The first call of a run that reads a budget rolls it
-- over and turns its windows, so no call has changed it in memory yet.
local function due_fields(group, tag, unit, key, scope)
  local f = budget_figures.budget_fields(key)
  if (f[11] or f[13]) and rollover.pass_if_due(tag, key, unit, scope, f[11], f[13], f[8], run_time.now(group)) then
    f = budget_figures.budget_fields(key)
  end
  if f[12] and window_turn.turn_windows_if_due(tag, key, f[12], f[8], run_time.now(group)) then
    f = budget_figures.budget_fields(key)
  end
  return f
end

-- The budget of a record as it is now, or nil.
local function current_budget(group, tag, unit, key, scope)
  local f = due_fields(group, tag, unit, key, scope)
  local budget = kept[key]
  if budget and bring_up_to_date(budget, f) then
    return budget
  end
  budget = parse_shared(key, scope, f)
  if budget then
    keep(key, budget)
  end
  return budget
end

-- The budget at a scope as the calls before this one left it, or nil. All calls share it: a call changes copies_of it,
-- or moves its figures with keep_plain_move after the last check.
local function shared_budget(group, tag, unit, scope)
  local key = keys.budget(tag, unit, scope)
  local budget = group.budgets[key]
  if budget == nil then
    budget = current_budget(group, tag, unit, key, scope) or false
    group.budgets[key] = budget
  end
  return budget or nil
end

-- Lets the calls of a run share a budget that one of them has made.
local function adopt(group, budget)
  group.budgets[budget.key] = budget
end

local function copies_of(budgets)
  local copies = {}
  for i = 1, #budgets do
    copies[i] = budget_figures.copy_budget(budgets[i])
  end
  return copies
end

-- Which fields a change writes: those of its rank and below.
local RANKS = { reserved = 1, spent = 2, debt = 3, credits = 4, moments = 5 }

local function note_change(group, budget, change)
  local earlier = group.changed[budget]
  if not earlier or RANKS[change] > RANKS[earlier] then
    group.changed[budget] = change
  end
end

-- Moves the figures of a shared budget, after moves_plainly has checked it. Returns the balance as balance_text does,
-- and as an idempotency record stores it. Cannot fail.
local function keep_plain_move(group, budget, by_remaining, by_reserved, by_spent)
  local remaining, reserved, spent = budget.remaining_figure + by_remaining, budget.reserved_figure + by_reserved,
    budget.spent_figure + by_spent
  set_moving(budget, remaining, reserved, spent, string.format('%d,%d,%d', remaining, reserved, spent))
  note_change(group, budget, by_spent == 0 and 'reserved' or 'spent')
  local text = budget.moving_text .. budget.lasting_text
  return text, brief_figures.stored_balance(budget, text)
end

-- The figure of a changed copy. A sum of two numbers is a number even if it is too long for a figure.
local function figure_of(figure, text)
  return #text <= 15 and type(figure) == 'number' and figure or int64.figure(text)
end

-- Takes over the figures of a changed copy. Returns what keep_plain_move does. Cannot fail.
local function keep_copy(group, copy)
  local budget, change = copy.shared, 'spent'
  set_moving(budget, figure_of(copy.remaining_figure, copy.remaining), figure_of(copy.reserved_figure, copy.reserved),
    figure_of(copy.spent_figure, copy.spent), copy.remaining .. ',' .. copy.reserved .. ',' .. copy.spent)
  if copy.debt ~= budget.debt or copy.is_over_limit ~= budget.is_over_limit then
    budget.debt, budget.debt_figure, budget.is_over_limit = copy.debt, copy.debt_figure, copy.is_over_limit
    change = 'debt'
  end
  if copy.credits_text ~= budget.credits_text then
    -- Few charges change when something next happens to a credit.
    change = credit_record.has_same_moment(copy.credits_text, budget.credits_text) and 'credits' or 'moments'
    budget.credits_text, budget.allocated, budget.allocated_figure = copy.credits_text, copy.allocated,
      int64.figure(copy.allocated)
  end
  if copy.windows ~= budget.windows then
    budget.windows, budget.windows_text = copy.windows, window_record.windows_text(copy.windows)
    group.charged_windows[budget] = true
  end
  note_lasting(budget)
  note_change(group, budget, change)
  local text = budget.moving_text .. budget.lasting_text
  return text, brief_figures.stored_balance(budget, text)
end

local function write_budget(budget, change, has_charged_windows)
  -- Splitting the text costs half of formatting the figures again.
  local remaining, reserved, spent = string.match(budget.moving_text, '^(%-?%d+),(%-?%d+),(%-?%d+)$')
  if change == 'reserved' then
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved)
  elseif change == 'spent' then
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved, 'spent', spent)
  else
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved, 'spent', spent, 'debt', budget.debt,
      'is_over_limit', budget.is_over_limit)
  end
  if change == 'credits' then
    redis.call('HSET', budget.key, 'allocated', budget.allocated, 'credits', budget.credits_text)
  elseif change == 'moments' then
    credit_turn.write_left(budget)
  end
  if has_charged_windows then
    redis.call('HSET', budget.key, 'windows', budget.windows_text)
  end
  if budget.waiting then
    waking.wake_waiters(budget.key)
  end
end

-- Writes the budgets that the calls have changed.
local function write(group)
  for budget, change in pairs(group.changed) do
    write_budget(budget, change, group.charged_windows[budget])
  end
end

return {
  adopt = adopt, budget = shared_budget, copies_of = copies_of, keep_copy = keep_copy,
  keep_plain_move = keep_plain_move,
  parse = parse_shared, write = write,
}
