-- period: the period of a budget, and what its figures are in the next one.
-- @include budget_figures, credit_record, int64, time
--
-- A budget with a period has four more fields: period_start and period_end (instants in ms; the end is the start of the
-- next period), rollover_policy, and period_allocated, the allocation of each new period. The next period is as long as
-- the one before, unless the budget has a recurrence. Then `recurrence` is its rule, which only the service reads, and
-- `boundaries` has the ends of the periods to come, ascending, with commas between. The service plans them far ahead.
-- If none is left, the budget stays in its last period until there is a new plan: a rollover may be late then, but
-- never at a wrong instant.
--
-- A rollover starts the next period at its boundary: spent becomes 0, reserved and debt stay, and allocated follows
-- from the policy:
-- NONE              period_allocated.
-- CARRY_FORWARD     period_allocated and what was not spent, allocated - spent.
-- CAP_AT_ALLOCATED  the same, but at most one period_allocated is carried over.
-- Credits are no part of this: what they hold is left out before, and added afterwards.
-- What is not spent includes what is reserved, and debt is not subtracted: both go along, and would count twice. So
-- holds may be made, released and expire before or after the rollover, and the figures are the same.
--
-- Each script that decides from a budget rolls it over first, by Redis' clock, and a job does so with idle ones.
-- Scripts that only read show the figures of the new period without writing them. A closed budget keeps its last
-- period.

-- Rollovers of one run. The last one covers all boundaries that are left, so a budget is always in its current period
-- afterwards.
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

-- The ends of the periods to come.
local function plan_of(key, text, ends)
  local plan = { texts = {} }
  for boundary in string.gmatch(text, '[^,]+') do
    local instant = instant_of(boundary)
    if not instant or instant <= (plan[#plan] or ends) then
      error('corrupt budget record ' .. key .. ': its boundaries are not ascending instants')
    end
    plan[#plan + 1], plan.texts[#plan.texts + 1] = instant, boundary
  end
  return plan
end

-- What the credits of a budget have of its allocation, a figure.
local function held_by_credits(budget)
  return budget.credits_text and credit_record.held(credit_record.parsed(budget.credits_text)) or 0
end

-- What of an allocation is neither held by the budget's credits nor has it paid what credits have paid. After a RESET,
-- these may have more than all of it.
local function base_of(budget, allocated)
  local base = int64.sub(int64.sub(allocated, budget.held_by_credits), budget.paid_by_credits)
  return int64.negative(base) and '0' or int64.text(base)
end

-- The budget with its period. Ends the script if a field is damaged.
local function read_period(key, scope)
  local f = redis.call('HMGET', key, 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit',
    'is_over_limit', 'status', 'commit_overage_policy', 'waiting', 'period_end', 'windows', 'credits',
    'period_start', 'rollover_policy', 'period_allocated', 'tenant_id', 'ledger_id', 'recurrence', 'boundaries')
  local budget = budget_figures.parse_budget(key, scope, f)
  if not budget then
    error('there is no budget ' .. key)
  end
  budget_figures.require_balanced({ budget })
  local starts, ends, policy = instant_of(f[14]), instant_of(f[11]), f[15] or 'NONE'
  if not (starts and ends and starts < ends and POLICIES[policy] and int64.is_amount(f[16]) and f[17]) then
    error('corrupt budget record ' .. key .. ': its period is not valid')
  end
  budget.starts, budget.ends, budget.policy, budget.base = starts, ends, policy, f[16]
  budget.tenant, budget.ledger_id = f[17], f[18] or ''
  budget.plan = f[19] and plan_of(key, f[20] or '', ends)
  budget.held_by_credits = held_by_credits(budget)
  return budget
end

-- `count` times the amount, or the largest int64.
local function times(amount, count)
  local sum = '0'
  while count > 0 do
    if count % 2 == 1 then
      sum = int64.saturating_add(sum, amount)
    end
    amount, count = int64.saturating_add(amount, amount), math.floor(count / 2)
  end
  return sum
end

-- What is allocated after `count` rollovers in a row, nothing of which is spent in between.
local function next_allocated(budget, count)
  local base = budget.base
  if budget.policy == 'NONE' then
    return base
  end
  local unused = int64.sub(int64.sub(budget.allocated, budget.spent), budget.held_by_credits)
  unused = int64.negative(unused) and '0' or unused
  if budget.policy == 'CAP_AT_ALLOCATED' then
    return int64.saturating_add(base, (count > 1 or int64.less(base, unused)) and base or unused)
  end
  return int64.saturating_add(times(base, count), unused)
end

-- The figures in the period that ends at `ends`, after `count` boundaries.
local function rolled_over(budget, starts, ends, count)
  local allocated = int64.add(next_allocated(budget, count), budget.held_by_credits)
  local remaining = allocated and int64.sub(allocated, budget.reserved)
  remaining = remaining and int64.sub(remaining, budget.debt)
  if not remaining then
    -- Holds and debt are together more than an int64. With what was not spent carried over, `remaining` does not
    -- change.
    allocated, remaining = int64.sub(budget.allocated, budget.spent), budget.remaining
  end
  local over = budget_figures.mark_after(budget.is_over_limit, budget.remaining, remaining, budget.debt,
    budget.overdraft_limit)
  return { scope = budget.scope, starts = starts, ends = ends, base = budget.base, policy = budget.policy,
    held_by_credits = budget.held_by_credits, allocated = allocated, remaining = remaining,
    reserved = budget.reserved, spent = '0', debt = budget.debt,
    overdraft_limit = budget.overdraft_limit, is_over_limit = over, status = budget.status, count = count }
end

-- The next period of a recurrence, and how many boundaries lead to it: one, or all up to now. Nil if it is not planned.
local function planned_period(plan, state, now, all)
  local first = #plan - state.left + 1
  local last = first
  while all and last < #plan and plan[last] <= now do
    last = last + 1
  end
  return last > first and plan[last - 1] or state.ends, plan[last], last - first + 1
end

local function equal_period(state, now, all)
  local length = state.ends - state.starts
  local count = all and math.floor((now - state.ends) / length) + 1 or 1
  local starts = state.ends + (count - 1) * length
  return starts, starts + length, count
end

-- The states of the budget after each boundary up to now, oldest first.
local function states_until(budget, now)
  local states, state, plan = {}, budget, budget.plan
  budget.left = plan and #plan
  while state.ends <= now do
    local all, starts, ends, count = #states + 1 == MOST_ROLLOVERS
    if plan then
      starts, ends, count = planned_period(plan, state, now, all)
    else
      starts, ends, count = equal_period(state, now, all)
    end
    if not ends or #states == MOST_ROLLOVERS then
      break
    end
    local left = plan and state.left - count
    state = rolled_over(state, starts, ends, count)
    state.left = left
    states[#states + 1] = state
  end
  return states
end

-- The state of a budget in the period that it is in now, with what has become of its credits, if a rollover or a
-- credit is due that this script cannot write, else nil. `credits` is the budget's field.
local function state_now(key, scope, period_end, status, now, credits)
  local is_over = period_end and is_period_over(key, period_end, status, now)
  local has_due = credits and status ~= 'CLOSED' and credit_record.is_due(credits, now)
  if not is_over and not has_due then
    return nil
  end
  local state
  if is_over then
    local states = states_until(read_period(key, scope), now)
    state = states[#states]
  else
    state = budget_figures.parse_budget(key, scope, budget_figures.budget_fields(key))
  end
  if state and has_due then
    local former, mark = state.remaining, state.is_over_limit
    state.credits, state.credit_effects = credit_record.pass(state, credit_record.parsed(credits), now)
    state.is_over_limit =
      budget_figures.mark_after(mark, former, state.remaining, state.debt, state.overdraft_limit)
  end
  return state
end

-- Appends the fields and values of that state, if there is one, to a list.
local function add_current_fields(list, key, scope, period_end, status, now, credits)
  local state = state_now(key, scope, period_end, status, now, credits)
  if state then
    for _, name in ipairs({ 'allocated', 'remaining', 'spent', 'debt', 'is_over_limit' }) do
      list[#list + 1], list[#list + 2] = name, state[name]
    end
    if state.starts then
      list[#list + 1], list[#list + 2] = 'period_start', time.ms_text(state.starts)
      list[#list + 1], list[#list + 2] = 'period_end', time.ms_text(state.ends)
    end
    if state.credits then
      list[#list + 1], list[#list + 2] = 'credits', credit_record.text_of(state.credits)
    end
  end
end

return {
  POLICIES = POLICIES, add_current_fields = add_current_fields, base_of = base_of, held_by_credits = held_by_credits,
  instant_of = instant_of,
  is_period_over = is_period_over, plan_of = plan_of, read_period = read_period, state_now = state_now,
  states_until = states_until,
}
