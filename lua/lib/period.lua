-- period: the period of a budget, and what its figures are in the next one.
-- @include now_ms: ms_text
-- @include int64: i64_sub, i64_less, i64_negative, i64_positive, i64_saturating_add, i64_is_amount
-- @include budget: parse_budget, require_balanced
--
-- A budget with a period has four more fields: period_start and period_end (instants in ms; the end is the start of the next period),
-- rollover_policy, and period_allocated, the allocation of each new period. The next period is as long as the one before.
--
-- A rollover starts the next period at its boundary: spent becomes 0, reserved and debt stay, and allocated follows from the policy:
-- NONE              period_allocated.
-- CARRY_FORWARD     period_allocated and what was not spent, allocated - spent.
-- CAP_AT_ALLOCATED  the same, but at most one period_allocated is carried over.
-- What is not spent includes what is reserved, and debt is not subtracted: both go along, and would count twice. So holds may be made,
-- released and expire before or after the rollover, and the figures are the same.
--
-- Each script that decides from a budget rolls it over first, by Redis' clock, and a job does so with idle ones. Scripts that only
-- read show the figures of the new period without writing them. A closed budget keeps its last period.

-- Rollovers of one run. The last one covers all boundaries that are left, so a budget is always in its current period afterwards.
local MOST_ROLLOVERS = 8
local POLICIES = { NONE = true, CARRY_FORWARD = true, CAP_AT_ALLOCATED = true }

-- An instant in ms, or nil if the text is not one.
local function instant_of(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

-- Whether a budget with these two fields has to roll over before it is used.
local function is_period_over(key, period_end, status, now)
  local ends = instant_of(period_end)
  if not ends then
    error('corrupt budget record ' .. key .. ': its period_end is not an instant')
  end
  return now >= ends and status ~= 'CLOSED'
end

-- The budget with its period. Ends the script if a field is damaged.
local function read_period(key, scope)
  local f = redis.call('HMGET', key, 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit', 'is_over_limit', 'status',
    'commit_overage_policy', 'waiting', 'period_end', 'period_start', 'rollover_policy', 'period_allocated', 'tenant_id', 'ledger_id')
  local budget = parse_budget(key, scope, f)
  if not budget then
    error('there is no budget ' .. key)
  end
  require_balanced({ budget })
  local starts, ends, policy = instant_of(f[12]), instant_of(f[11]), f[13] or 'NONE'
  if not (starts and ends and starts < ends and POLICIES[policy] and i64_is_amount(f[14]) and f[15]) then
    error('corrupt budget record ' .. key .. ': its period is not valid')
  end
  budget.starts, budget.ends, budget.policy, budget.base = starts, ends, policy, f[14]
  budget.tenant, budget.ledger_id = f[15], f[16] or ''
  return budget
end

-- `count` times the amount, or the largest int64.
local function times(amount, count)
  local sum = '0'
  while count > 0 do
    if count % 2 == 1 then
      sum = i64_saturating_add(sum, amount)
    end
    amount, count = i64_saturating_add(amount, amount), math.floor(count / 2)
  end
  return sum
end

-- What is allocated after `count` rollovers in a row, nothing of which is spent in between.
local function next_allocated(budget, count)
  local base = budget.base
  if budget.policy == 'NONE' then
    return base
  end
  local unused = i64_sub(budget.allocated, budget.spent)
  unused = i64_negative(unused) and '0' or unused
  if budget.policy == 'CAP_AT_ALLOCATED' then
    return i64_saturating_add(base, (count > 1 or i64_less(base, unused)) and base or unused)
  end
  return i64_saturating_add(times(base, count), unused)
end

-- The figures in the period that ends at `ends`, after `count` boundaries.
local function rolled_over(budget, starts, ends, count)
  local allocated = next_allocated(budget, count)
  local remaining = i64_sub(allocated, budget.reserved)
  remaining = remaining and i64_sub(remaining, budget.debt)
  if not remaining then
    -- Holds and debt are together more than an int64. With what was not spent carried over, `remaining` does not change.
    allocated, remaining = i64_sub(budget.allocated, budget.spent), budget.remaining
  end
  -- As after a funding operation: funds clear the mark of a capped charge, but debt above its limit stays over limit.
  local over = budget.is_over_limit
  if i64_positive(budget.overdraft_limit) and i64_less(budget.overdraft_limit, budget.debt) then
    over = '1'
  elseif i64_positive(remaining) or i64_less(budget.remaining, remaining) then
    over = '0'
  end
  return { scope = budget.scope, starts = starts, ends = ends, base = budget.base, policy = budget.policy, allocated = allocated,
    remaining = remaining, reserved = budget.reserved, spent = '0', debt = budget.debt, overdraft_limit = budget.overdraft_limit,
    is_over_limit = over, status = budget.status, count = count }
end

-- The states of the budget after each boundary up to now, oldest first.
local function states_until(budget, now)
  local states, state = {}, budget
  while state.ends <= now do
    local length = state.ends - state.starts
    local passed = math.floor((now - state.ends) / length) + 1
    local count = #states + 1 == MOST_ROLLOVERS and passed or 1
    local starts = state.ends + (count - 1) * length
    state = rolled_over(state, starts, starts + length, count)
    states[#states + 1] = state
  end
  return states
end

-- The state of a budget in the period that `now` is in, if a rollover is due that this script cannot write, else nil.
local function state_now(key, scope, period_end, status, now)
  if not period_end or not is_period_over(key, period_end, status, now) then
    return nil
  end
  local states = states_until(read_period(key, scope), now)
  return states[#states]
end

-- Appends the fields and values of that state, if there is one, to a list.
local function add_current_fields(list, key, scope, now)
  local f = redis.call('HMGET', key, 'period_end', 'status')
  local state = state_now(key, scope, f[1], f[2], now)
  if state then
    for _, name in ipairs({ 'allocated', 'remaining', 'spent', 'is_over_limit' }) do
      list[#list + 1], list[#list + 2] = name, state[name]
    end
    list[#list + 1], list[#list + 2] = 'period_start', ms_text(state.starts)
    list[#list + 1], list[#list + 2] = 'period_end', ms_text(state.ends)
  end
end
