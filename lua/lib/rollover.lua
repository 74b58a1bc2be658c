-- rollover: the one way in which a budget passes into its next period. lua/lib/period.lua computes its figures.
-- @include audit_row, credit_turn, event_writer, keys, new_figures, period, time, waking
--
-- A rollover is a change of its own: it stays even if what the script does next is refused. Whichever script comes
-- first after the boundary makes it, with one event and one audit row.

local function emit_rollover(tag, budget, unit, former, state)
  local origin, tenant, scope = { actor = 'system' }, budget.tenant, budget.scope
  event_writer.append_event(tag, 'budget.reset_spent', tenant, scope, origin,
    { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'RESET_SPENT', 'spent_override_provided', '0',
      'previous_allocated', former.allocated, 'new_allocated', state.allocated, 'previous_remaining', former.remaining,
      'new_remaining', state.remaining, 'previous_debt', former.debt, 'new_debt', state.debt, 'previous_spent',
      former.spent, 'new_spent', state.spent, 'previous_reserved', former.reserved, 'new_reserved', state.reserved,
      'previous_status', former.status, 'new_status', state.status, 'previous_period_start',
      time.ms_text(former.starts), 'new_period_start', time.ms_text(state.starts), 'previous_period_end',
      time.ms_text(former.ends), 'new_period_end', time.ms_text(state.ends), 'reason', 'the period ended',
      'rollover_policy', budget.policy, 'periods', time.ms_text(state.count) })
  new_figures.emit_new_figures(tag, tenant, origin, unit, former, state)
  audit_row.put_audit_row(tag, 'rollOverBudget', 200, tenant, 'budget', budget.ledger_id, origin,
    { 'scope', scope, 'unit', unit, 'rollover_policy', budget.policy, 'allocated', state.allocated, 'spent',
    former.spent,
      'period_start', time.ms_text(state.starts), 'period_end', time.ms_text(state.ends) })
end

-- Rolls a budget over into the period that `now` is in. Returns the number of its rollovers. Ends the script, with
-- nothing written, if the record or a log is damaged. The caller has not changed the budget in memory, and reads it
-- again.
local function roll_over(tag, key, unit, scope, now)
  local budget = period.read_period(key, scope)
  -- What ends with the period does so before it.
  local until_then = math.min(now, budget.ends)
  if budget.credits_text
    and credit_turn.turn_if_due(tag, key, unit, scope, budget.credits_text, budget.status, until_then) then
    budget = period.read_period(key, scope)
  end
  local states = period.states_until(budget, now)
  local last = states[#states]
  if not last or budget.status == 'CLOSED' then
    return 0
  end
  event_writer.require_event_log(tag)
  redis.call('XLEN', keys.audit_log(tag))
  redis.call('ZADD', keys.period_index(tag), time.ms_text(last.ends), scope .. ' ' .. unit)
  if budget.plan then
    redis.call('HSET', key, 'boundaries', table.concat(budget.plan.texts, ',', #budget.plan - last.left + 1))
  end
  redis.call('HSET', key, 'allocated', last.allocated, 'remaining', last.remaining, 'spent', last.spent,
    'is_over_limit', last.is_over_limit, 'period_start', time.ms_text(last.starts), 'period_end',
    time.ms_text(last.ends), 'updated_at', time.ms_text(now))
  local former = budget
  redis.call('HDEL', key, 'paid_by_credits')
  for _, state in ipairs(states) do
    emit_rollover(tag, budget, unit, former, state)
    former = state
  end
  if budget.waiting then
    waking.wake_waiters(key)
  end
  redis.pcall('INCRBY', keys.rolled(tag), #states)
  return #states
end

-- Lets everything that is due in a budget happen, but for its windows. `credits` is its field. Returns whether the
-- caller has to read the budget again.
local function pass_if_due(tag, key, unit, scope, period_end, credits, status, now)
  local has_rolled = false
  if period_end and period.is_period_over(key, period_end, status, now) then
    has_rolled = roll_over(tag, key, unit, scope, now) > 0
    -- Credits that end with the period have turned even if no next period is planned.
    local text = credits and redis.call('HGET', key, 'credits')
    has_rolled, credits = has_rolled or text ~= credits, text
  end
  return credits and credit_turn.turn_if_due(tag, key, unit, scope, credits, status, now) or has_rolled
end

return { pass_if_due = pass_if_due, roll_over = roll_over }
