-- give_back: returns the amounts of ended holds to their budgets, however many holds end in one run. An expired hold
-- may cost something, which is then charged instead.
-- @include credit_record, credit_turn, field, int64, keys, rollover, threshold, waking, window_record, window_turn
--
-- What returns is first added up in memory, so that each budget is read and written once. Holds of one subject share
-- their budgets, and this family of budgets is looked up once.
-- `now` is Redis' time. A budget whose period has ended rolls over before it takes it.
local function new_returns(now)
  return { now = now, ids = {}, holds = {}, taken = {}, families = {}, budgets = {}, by_key = {} }
end

local function is_figure(text)
  return text and string.find(text, '^%-?%d+$') ~= nil
end

-- The budget with the two figures that a return changes, as i64_figure returns them, or with the reason why it cannot
-- take anything back.
-- Only these two must be valid: a budget that is otherwise damaged still gets its share. `spent` and the windows count
-- for charges alone.
local function returning_budget(tag, returns, hold, scope)
  local unit = hold.unit
  local key = keys.budget(tag, unit, scope)
  local budget = returns.by_key[key]
  if budget then
    return budget
  end
  local f = redis.pcall('HMGET', key, 'remaining', 'reserved', 'status', 'allocated', 'debt', 'spent', 'extras')
  local has_extras = f[7]
  local extras = has_extras and redis.call('HMGET', key, 'waiting', 'period_end', 'credits') or {}
  local credits = extras[3]
  -- The figures are the same in either order, so a budget that cannot roll over takes it back nevertheless.
  local _, passed = pcall(rollover.pass_if_due, tag, key, unit, scope, extras[2], credits, f[3], returns.now)
  if passed == true then
    f = redis.pcall('HMGET', key, 'remaining', 'reserved', 'status', 'allocated', 'debt', 'spent')
    credits = credits and redis.call('HGET', key, 'credits')
  end
  budget = { key = key, scope = scope, unit = unit, was = f[1], allocated = f[4], debt = f[5], spent = f[6],
    waiting = extras[1], status = f[3], has_extras = has_extras }
  if not f.err and not f[3] and not f[1] and not f[2] then
    budget.defect = 'MISSING_BUDGET'
  elseif not (f[3] and is_figure(f[1]) and is_figure(f[2])) then
    budget.defect = 'INVALID_BUDGET'
  else
    budget.remaining, budget.reserved = int64.figure(f[1]), int64.figure(f[2])
    -- Damaged credits do not keep a budget from its share.
    budget.credits_text = credits and is_figure(f[4]) and pcall(credit_record.parsed, credits) and credits or nil
    budget.former_allocated = budget.credits_text and f[4]
  end
  returns.by_key[key] = budget
  returns.budgets[#returns.budgets + 1] = budget
  return budget
end

local function family_of(tag, returns, hold)
  local subject = hold.subject
  local family = returns.families[subject]
  if family then
    return family
  end
  family = { defect = subject.defect, leaf = subject.scopes[#subject.scopes] }
  for _, scope in ipairs(family.defect and {} or subject.held) do
    family[#family + 1] = returning_budget(tag, returns, hold, scope)
    family.defect = family.defect or family[#family].defect
  end
  returns.families[subject] = family
  return family
end

-- Whether the budget can be charged. The first time, its windows turn if they are due, and are read.
local function is_chargeable(tag, returns, budget)
  if budget.can_be_charged == nil then
    local function windows_now()
      local text = budget.has_extras and redis.call('HGET', budget.key, 'windows')
      if text and window_turn.turn_windows_if_due(tag, budget.key, text, budget.status, returns.now) then
        text = redis.call('HGET', budget.key, 'windows')
      end
      return text and window_record.parse_windows(budget.key, text) or nil
    end
    local readable, windows = pcall(windows_now)
    budget.can_be_charged = readable and is_figure(budget.spent)
    budget.spent_figure, budget.windows = budget.can_be_charged and int64.figure(budget.spent), windows
  end
  return budget.can_be_charged
end

-- remaining and reserved after `returned` of the amount is returned, or false if less than the amount is reserved.
local function moved_back(budget, amount, returned)
  local remaining, reserved = budget.remaining, budget.reserved
  if type(remaining) == 'number' and type(reserved) == 'number' and type(amount) == 'number' then
    -- All of it was reserved, so the sum stays far below 2^53.
    return reserved >= amount and remaining + returned, reserved - amount
  end
  remaining, reserved = int64.add(remaining, returned), int64.sub(reserved, amount)
  return reserved and not int64.negative(reserved) and remaining, reserved
end

-- Why the budget cannot take back a hold of this amount, or nil. `then_` figures are those after it.
local function return_defect(tag, returns, budget, amount, charge, made_at)
  budget.then_remaining, budget.then_reserved =
    moved_back(budget, amount, charge and int64.sub(amount, charge) or amount)
  if not budget.then_remaining or charge and not is_chargeable(tag, returns, budget) then
    return 'INVALID_BUDGET'
  end
  if charge then
    budget.then_spent = int64.add(budget.spent_figure, charge)
    budget.then_windows = budget.windows and window_record.charged_windows(budget.windows, charge)
    if not budget.then_spent or budget.windows and not budget.then_windows then
      return 'INT64_OVERFLOW'
    end
  end
  if budget.credits_text then
    local left = { allocated = budget.allocated, credits_text = budget.credits_text }
    local lapsed = credit_record.leave(left, budget.then_reserved, made_at, amount, charge or 0)
    budget.then_remaining, budget.left = int64.figure(int64.text(int64.sub(budget.then_remaining, lapsed))), left
  end
  return nil
end

-- Adds a hold with valid terms to the returns, or returns the reason why it cannot; then no budget has changed.
-- `charge` is what every budget is charged of its amount, or nil for nothing: the rest returns. It is at most the
-- amount, so it needs no funds and no overage policy, and makes no debt.
local function take_back(tag, returns, reservation_id, hold, charge)
  local family = family_of(tag, returns, hold)
  if family.defect then
    return family.defect
  end
  local amount, figure = int64.figure(hold.amount), charge and int64.figure(charge)
  local made_at, paid = tonumber(hold[field.created_at] or '') or math.huge, {}
  for i = 1, #family do
    local defect = return_defect(tag, returns, family[i], amount, figure, made_at)
    if defect then
      return defect
    end
  end
  for i = 1, #family do
    local budget = family[i]
    budget.remaining, budget.reserved, budget.tenant = budget.then_remaining, budget.then_reserved, hold.tenant
    if charge then
      budget.spent_figure, budget.windows, budget.is_charged = budget.then_spent, budget.then_windows, true
    end
    local left = budget.left
    paid[i] = left or {}
    if left then
      budget.allocated, budget.credits_text, budget.left = left.allocated, left.credits_text, nil
      budget.credit_effects = budget.credit_effects or {}
      budget.credit_effects[#budget.credit_effects + 1] = left.credit_effects[1]
    end
  end
  hold.leaf, hold.charge, hold.paid = family.leaf, charge, credit_record.paid_text(paid)
  returns.taken[reservation_id] = true
  returns.ids[#returns.ids + 1] = reservation_id
  returns.holds[#returns.holds + 1] = hold
  return nil
end

local function write_charge(budget)
  budget.spent = int64.text(budget.spent_figure)
  redis.call('HSET', budget.key, 'spent', budget.spent)
  if budget.windows then
    redis.call('HSET', budget.key, 'windows', window_record.windows_text(budget.windows))
  end
end

-- `origin` is that of the events about credits.
local function write_returns(tag, returns, origin)
  for _, budget in ipairs(returns.budgets) do
    -- Without a tenant, nothing was returned to this budget.
    if budget.tenant then
      budget.remaining, budget.reserved = int64.text(budget.remaining), int64.text(budget.reserved)
      if budget.credit_effects then
        credit_turn.write_left(budget)
        for _, effects in ipairs(budget.credit_effects) do
          credit_turn.write_effects(tag, budget.tenant, budget.unit, budget.scope, origin, effects, returns.now)
        end
      end
      redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
      if budget.is_charged then
        write_charge(budget)
      end
      if budget.waiting then
        waking.wake_waiters(budget.key)
      end
    end
  end
end

-- A budget emits no crossings if a figure that its utilization needs is damaged.
local function emit_return_crossings(tag, returns, origin)
  for _, budget in ipairs(returns.budgets) do
    if budget.tenant and is_figure(budget.allocated) and is_figure(budget.debt) and budget.spent then
      local crossings = threshold.crossings_of(threshold.watched_marks(tag, budget.tenant, budget.unit),
        budget.allocated, budget.was, budget.debt, budget.remaining, budget.debt, budget.former_allocated)
      if crossings then
        threshold.emit_crossings(tag, budget.tenant, origin, budget.unit, budget, crossings)
      end
    end
  end
end

return {
  emit_return_crossings = emit_return_crossings, new_returns = new_returns, take_back = take_back,
  write_returns = write_returns,
}
