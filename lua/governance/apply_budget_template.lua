#!lua
-- apply_budget_template: give a budget what its template sets now, once: a row of a bulk action.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   template         hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   template_id
-- ARGV[5]   keep_ms          how long the action remembers that it changed this budget
-- ARGV[6]   correlation_id   of the whole action
-- ARGV[7-10] origin           actor is admin; request_id is that of the action's first attempt, after
--           which the set of changed rows is named
-- ARGV[11]  retention_ms     how long the records of holds that this run expires are kept
-- RETURNS   SUCCEEDED | SKIPPED reason:ALREADY_IN_TARGET_STATE | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
--           | BUDGET_FROZEN
--           | BUDGET_EXCEEDED | TOO_MANY_CREDITS | INT64_OVERFLOW | UNPLANNED tenant_id template_id
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     one budget, 64 credits, 4 windows, 100 instants of each rule; 100 due holds, if it reclaims
-- EMITS     budget.updated, custom.credit.granted, budget.reset, budget.funded, budget.debited, budget.reset_spent,
--           budget.debt_repaid, budget.exhausted, budget.over_limit_entered, budget.over_limit_exited,
--           budget.threshold_crossed; those of a rollover; those of the expiry transition
-- @include  budget_figures, credit_grant, event_writer, extras, funding, governed_budget, granted_credits, int64, keys,
--           period_starts, template_record, time, waking, window_record, window_turn
--
-- The allocation changes as by RESET, and windows and periods as by set_windows and set_recurrence: what is spent and
-- held stays. Metadata that the template does not set stays, too. A period of a fixed length begins anew only if the
-- budget had none of that length. Of the template's credits, the budget gets those that it never had.
local budget_record, template_key = KEYS[1], KEYS[2]
local tenant_id, scope, unit, template_id, keep_ms, retention_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[11]
local origin = { actor = ARGV[7], key = ARGV[8], request = ARGV[9], trace = ARGV[10], correlation = ARGV[6] }

local tag = keys.tag_of(budget_record)
local changed_rows, row = keys.bulk_rows(tag, origin.request), scope .. ' ' .. unit

if redis.call('SISMEMBER', changed_rows, row) == 1 then
  return { 'SUCCEEDED' }
end
local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status ~= 'ACTIVE' then
  return { 'BUDGET_FROZEN' }
end
local stored = redis.call('HMGET', budget_record, 'template_id', 'template_revision', 'recurrence', 'period_start',
  'period_end', 'template_credits')
local revision, period_ms, template_unit = unpack(redis.call('HMGET', template_key, 'revision', 'period_ms', 'unit'))
-- Another template may have the id of the one that made the budget.
if stored[1] ~= template_id or not revision or template_unit ~= unit then
  return { 'NOT_FOUND' }
end
if stored[2] == revision then
  return { 'SKIPPED', 'ALREADY_IN_TARGET_STATE' }
end
local now, former, former_names = budget.now, {}, {}
for _, window in ipairs(budget.windows_text
  and window_record.current_windows(budget_record, budget.windows_text, budget.status, now) or {}) do
  former[window.name], former_names[#former_names + 1] = window, window.name
end
local birth = template_record.birth_of(tag, tenant_id, template_id, unit, scope, now, former)
if birth.is_unplanned then
  return { 'UNPLANNED', tenant_id, template_id }
end
budget.overdraft_limit = birth.overdraft_limit
local of_credits = int64.saturating_add(budget.held_by_credits, budget.paid_by_credits)
local allocated = int64.add(birth.allocated, of_credits)
if not allocated then
  return { 'INT64_OVERFLOW' }
end
local planned, refused = funding.planned_funding(budget, 'RESET', int64.text(allocated), '')
local first = funding.reclaimed_before(tag, budget, planned, retention_ms, origin)
if first or not planned then
  return first or refused
end
local grants = template_record.new_grants(birth, stored[6])
refused = granted_credits.refusal({ allocated = planned.allocated, spent = planned.spent, debt = planned.debt,
  credits_text = budget.credits_text }, grants)
if refused then
  return refused
end
redis.call('ZCARD', keys.period_index(tag))
redis.call('ZCARD', keys.period_plans(tag))
credit_grant.require_places(tag, unit, scope)
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
redis.call('SADD', changed_rows, row)
redis.call('PEXPIRE', changed_rows, keep_ms)
local now_text = time.ms_text(now)
redis.call('HDEL', budget_record, 'commit_overage_policy', 'rollover_policy')
redis.call('HSET', budget_record, 'overdraft_limit', birth.overdraft_limit, 'template_revision', revision, 'updated_at',
  now_text, unpack(birth.fields))

local function end_periods()
  redis.call('ZREM', keys.period_index(tag), row)
  redis.call('ZREM', keys.period_plans(tag), row)
  redis.call('HDEL', budget_record, 'period_start', 'period_end', 'period_allocated', 'recurrence', 'boundaries')
  extras.mark_extras(budget_record)
end

if birth.recurrence then
  if birth.recurrence ~= stored[3] then
    birth.period.starts = stored[4] or birth.period.starts
    period_starts.set_period(tag, budget_record, unit, scope, birth.period, birth.allocated)
    redis.call('HSET', budget_record, 'recurrence', birth.recurrence)
    period_starts.set_boundaries(tag, budget_record, unit, scope, birth.following)
  end
elseif not birth.period then
  end_periods()
elseif stored[3] or not stored[5] or stored[5] - stored[4] ~= tonumber(period_ms) then
  end_periods()
  period_starts.set_period(tag, budget_record, unit, scope, birth.period, birth.allocated)
end
if birth.period then
  -- The periods to come have it even if the current one already has.
  redis.call('HSET', budget_record, 'period_allocated', birth.allocated)
end
budget.period_end, budget.period_allocated = birth.period and birth.period.ends, birth.allocated
for _, name in ipairs(former_names) do
  redis.call('ZREM', keys.period_plans(tag), row .. ' ' .. name)
end
if birth.windows then
  window_turn.set_windows(tag, budget_record, unit, scope, birth.windows, birth.rules, birth.plans)
else
  redis.call('HDEL', budget_record, 'windows', 'window_rules', 'window_plans')
  extras.mark_extras(budget_record)
end
event_writer.append_event(tag, 'budget.updated', tenant_id, scope, origin,
  { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'UPDATE', 'previous_status', budget.status, 'new_status',
  budget.status,
    'changed_fields', 'overdraft_limit,commit_overage_policy,rollover_policy,recurrence,windows', 'template_id',
    template_id })
if funding.funding_changes(budget, planned, 'RESET') then
  funding.apply_funding(tag, budget, planned,
    { tenant_id = tenant_id, scope = scope, unit = unit, operation = 'RESET', spent = '', reason = '', metadata = '' },
    now_text, origin)
elseif budget.waiting then
  waking.wake_waiters(budget_record)
end
if #grants > 0 then
  local changed = budget_figures.read_budget(tag, unit, scope)
  changed.ledger_id = budget.ledger_id
  credit_grant.write_of_template(tag, tenant_id, unit, granted_credits.plan(changed, grants, now), stored[6] or nil,
    origin, now)
end
return { 'SUCCEEDED' }
