#!lua
-- set_windows: give a budget its windows, or end them.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4-7] origin           actor is admin
-- ARGV[...] of each window: name, limit, recurrence in the form of src/governance/budgets/recurrence.ts, and instants
--           of that rule in ms, ascending, among them those after now, with commas between. No window ends all.
-- RETURNS   CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
-- BOUND     one budget, 4 windows, 100 instants of each
-- EMITS     budget.updated; those of a rollover
-- @include  audit_log, event_writer, extras, governed_budget, keys, time, waking, window_record,
--           window_turn
--
-- The list replaces the former one. A window whose name stays keeps what is spent in it and when it began, even if its
-- limit or its recurrence changes; it ends at the next instant of the rule. A new one begins now, with nothing spent.
-- Ending the windows of a budget that has none changes nothing.
local budget_record = KEYS[1]
local tenant_id, scope, unit = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[4], key = ARGV[5], request = ARGV[6], trace = ARGV[7] }
local first_window, A_WINDOW = 8, 4

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
local now, former, former_names = budget.now, {}, {}
-- Damaged windows can be replaced or removed, but what was spent in them is lost.
local readable, current =
  pcall(window_record.current_windows, budget_record, budget.windows_text or '', budget.status, now)
for _, window in ipairs(readable and current or {}) do
  former[window.name], former_names[#former_names + 1] = window, window.name
end
local windows, rules, plans = {}, {}, {}
for i = first_window, #ARGV, A_WINDOW do
  local name, rule = ARGV[i], ARGV[i + 2]
  local window, plan = window_record.begun_window(name, ARGV[i + 1], ARGV[i + 3], former[name], now)
  if not window then
    error('there are no boundaries after now for ' .. rule)
  end
  windows[#windows + 1], plans[#plans + 1], rules[#rules + 1] = window, plan, rule
end
if #windows == 0 and not budget.windows_text then
  return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
end
redis.call('ZCARD', keys.period_plans(tag))
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
for _, name in ipairs(former_names) do
  redis.call('ZREM', keys.period_plans(tag), scope .. ' ' .. unit .. ' ' .. name)
end
local text = window_record.windows_text(windows)
if #windows == 0 then
  redis.call('HDEL', budget_record, 'windows', 'window_rules', 'window_plans')
  extras.mark_extras(budget_record)
else
  window_turn.set_windows(tag, budget_record, unit, scope, windows, rules, plans)
end
redis.call('HSET', budget_record, 'updated_at', time.ms_text(now))
if budget.waiting then
  waking.wake_waiters(budget_record)
end
event_writer.append_event(tag, 'budget.updated', tenant_id, scope, origin,
  { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'UPDATE', 'previous_status', budget.status, 'new_status',
  budget.status,
    'changed_fields', 'windows' })
audit_log.append_audit(tag, #windows == 0 and 'removeBudgetWindows' or 'setBudgetWindows', 200, tenant_id, 'budget',
  budget.ledger_id, origin,
  { 'scope', scope, 'unit', unit, 'windows', text, 'window_rules', table.concat(rules, '|') })
return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
