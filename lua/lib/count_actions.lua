-- count_actions: counts an action that lua/lib/action_quota.lua has let pass. Step 5 of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include keys: run_index_key
-- @include now_ms: ms_text
-- @include action_counters: counter_correlation, count_one, count_none, note_told
-- @include action_quota: window_key_of
-- @include append_event: append_event, require_event_log
--
-- `counts` are those of quota_refusal, or nil.
local RISK = '__risk__'

-- Whether a counter that has counted this one reaches the rule's threshold for the first time.
local function crosses(rule, counter, used)
  return used == rule.crossing and not string.find(',' .. counter.told .. ',', ',' .. rule.threshold_text .. ',', 1, true)
end

-- Checks what count_actions needs: nothing may fail after the first write. Returns whether it will emit an event.
local function require_counting(tag, tenant_id, counts)
  local emits, begins = false, false
  for i = 1, counts and #counts.plan or 0 do
    local rule, counter = counts.plan[i].rule, counts.counters[i]
    emits = emits or crosses(rule, counter, counter.used + 1)
    begins = begins or counter.is_new
  end
  if emits then
    require_event_log(tag)
  end
  if counts and counts.run and (begins or counts.of_run.kept_ms) then
    redis.call('ZCARD', run_index_key(tag, tenant_id))
  end
  return emits
end

local function emit_approach(tag, tenant_id, policy, origin, entry, counts, used)
  local rule, window_key = entry.rule, window_key_of(entry, counts)
  append_event(tag, 'quota.threshold_approaching', tenant_id, entry.scope,
    { actor = origin.actor, key = origin.key, request = origin.request, trace = origin.trace, clock = origin.clock,
      correlation = counter_correlation(tenant_id, entry.scope, rule.risk_class or rule.kind, rule.window, window_key) },
    { 'action_kind', rule.risk_class and RISK or rule.kind, 'risk_class', rule.risk_class or '', 'window', rule.window,
      'window_key', window_key, 'used', ms_text(used), 'limit', ms_text(rule.limit), 'threshold_pct', rule.threshold_text,
      'policy_id', policy.id })
end

-- Counts an action that quota_refusal has let pass. Returns the text of its run's counters for the hold's record, or nil. `origin` may
-- be missing if require_counting has found nothing to emit.
local function count_actions(tag, tenant_id, policy, counts, origin, now)
  local run
  for i = 1, counts and #counts.plan or 0 do
    local entry, counter = counts.plan[i], counts.counters[i]
    local part = entry.window.ms and counts.day or counts.of_run
    local rule = entry.rule
    local ttl_ms = not entry.window.ms and rule.ttl_ms or nil
    if entry.is_first then
      count_one(counter, now, rule.limit, policy.id, ttl_ms)
      part.changed[entry.field], part.tenant = counter, tenant_id
      if ttl_ms then
        part.run = counts.run
        run = run or { counts.run }
        run[#run + 1], run[#run + 2] = counter.bucket_text, entry.field
      end
    else
      count_none(counter, rule.limit, ttl_ms)
    end
    if crosses(rule, counter, counter.used) then
      note_told(counter, rule.threshold_text)
      emit_approach(tag, tenant_id, policy, origin, entry, counts, counter.used)
    end
  end
  return run and table.concat(run, '\31')
end
