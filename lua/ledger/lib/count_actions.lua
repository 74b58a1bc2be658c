-- count_actions: counts an action that lua/ledger/lib/action_quota.lua has let pass. Step 5 of RESERVATION EVALUATION
-- ORDER in cycles-protocol-extensions-v0.1.26.
-- @include action_counters, action_quota, event_writer, kept_counters, keys, time
--
-- `plan` is that of quota_refusal, or nil.
local RISK = '__risk__'

-- Whether a counter that has counted this one reaches the rule's threshold for the first time.
local function crosses(rule, counter, used)
  return used == rule.crossing
    and not string.find(',' .. counter.told .. ',', ',' .. rule.threshold_text .. ',', 1, true)
end

-- Checks what count_actions needs: nothing may fail after the first write. Returns whether it will emit an event.
local function require_counting(tag, tenant_id, plan)
  if not plan then
    return false
  end
  local of_run = plan.of_run
  if of_run[1] and of_run.has_new then
    redis.call('ZCARD', keys.run_index(tag, tenant_id))
  end
  local emits = false
  for _, entry in ipairs(plan.needs_checks and plan or {}) do
    local used, counter = kept_counters.count_of(entry)
    emits = emits or crosses(entry.rule, counter, used + 1)
  end
  if emits then
    event_writer.require_event_log(tag)
  end
  return emits
end

local function emit_approach(tag, tenant_id, policy, origin, entry, plan, used)
  local rule, window_key = entry.rule, action_quota.window_key_of(entry, plan)
  event_writer.append_event(tag, 'quota.threshold_approaching', tenant_id, entry.scope,
    { actor = origin.actor, key = origin.key, request = origin.request, trace = origin.trace,
      correlation = action_counters.counter_correlation(tenant_id, entry.scope, rule.risk_class or rule.kind,
      rule.window, window_key) },
    { 'action_kind', rule.risk_class and RISK or rule.kind, 'risk_class', rule.risk_class or '', 'window', rule.window,
      'window_key', window_key, 'used', time.ms_text(used), 'limit', time.ms_text(rule.limit), 'threshold_pct',
      rule.threshold_text, 'policy_id', policy.id })
end

local function emit_approaches(tag, tenant_id, policy, plan, origin)
  for _, entry in ipairs(plan) do
    local used, counter = kept_counters.count_of(entry)
    if crosses(entry.rule, counter, used) then
      kept_counters.note_told(entry, entry.rule.threshold_text)
      emit_approach(tag, tenant_id, policy, origin, entry, plan, used)
    end
  end
end

-- The text for a hold's record of the counters of its run, see uncount_run.
local function run_text(plan)
  local texts = { plan.run }
  for i, entry in ipairs(plan.of_run) do
    local _, counter = kept_counters.count_of(entry)
    texts[2 * i], texts[2 * i + 1] = counter.bucket_text, entry.field
  end
  return table.concat(texts, '\31')
end

-- Counts an action in memory.
local function count(group, policy, plan)
  if plan.day[1] then
    kept_counters.count_one(group, plan.day, policy.id)
  end
  if plan.of_run[1] then
    kept_counters.count_one(group, plan.of_run, policy.id)
  end
end

-- Counts an action that quota_refusal has let pass. Returns the text of its run's counters for the hold's record, or
-- nil. `origin` may be missing if require_counting has found nothing to emit.
local function count_actions(group, tag, tenant_id, policy, plan, origin)
  count(group, policy, plan)
  if plan.needs_checks then
    emit_approaches(tag, tenant_id, policy, plan, origin)
  end
  return plan.of_run[1] and run_text(plan)
end

return { count = count, count_actions = count_actions, require_counting = require_counting }
