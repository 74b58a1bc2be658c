-- count_actions: counts an action that lua/lib/action_quota.lua has let pass. Step 5 of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include keys: run_index_key
-- @include now_ms: ms_text
-- @include action_counters: counter_correlation
-- @include action_quota: window_key_of
-- @include append_event: append_event, require_event_log
--
-- `counts` are those of quota_refusal, or nil.
local RISK = '__risk__'

local function is_told(counter, threshold)
  return string.find(',' .. counter.told .. ',', ',' .. threshold .. ',', 1, true) ~= nil
end

-- Whether one more action takes the counter over the rule's threshold for the first time.
local function crosses(rule, counter, before)
  return before / rule.limit < rule.threshold and (before + 1) / rule.limit >= rule.threshold and not is_told(counter, rule.threshold_text)
end

-- Checks what count_actions needs: nothing may fail after the first write.
local function require_counting(tag, tenant_id, counts)
  for _, entry in ipairs(counts or {}) do
    if entry.run then
      redis.call('ZCARD', run_index_key(tag, tenant_id))
    end
    if crosses(entry.rule, entry.counter, entry.counter.used) then
      require_event_log(tag)
    end
  end
end

local function emit_approach(tag, tenant_id, origin, entry, used)
  local rule, window_key = entry.rule, window_key_of(entry)
  append_event(tag, 'quota.threshold_approaching', tenant_id, entry.scope,
    { actor = origin.actor, key = origin.key, request = origin.request, trace = origin.trace,
      correlation = counter_correlation(tenant_id, entry.scope, rule.risk_class or rule.kind, rule.window, window_key) },
    { 'action_kind', rule.risk_class and RISK or rule.kind, 'risk_class', rule.risk_class or '', 'window', rule.window,
      'window_key', window_key, 'used', ms_text(used), 'limit', ms_text(rule.limit), 'threshold_pct', rule.threshold_text,
      'policy_id', entry.policy_id })
end

-- Counts an action that quota_refusal has let pass. Returns the text of its run's counters for the hold's record, or nil.
local function count_actions(tag, tenant_id, policy, counts, origin, now)
  local before, run = {}, nil
  for _, entry in ipairs(counts or {}) do
    local counter, rule = entry.counter, entry.rule
    if not before[counter] then
      before[counter] = counter.used
      counter.used, counter.last, counter.limit, counter.policy = counter.used + 1, now, rule.limit, policy.id
      entry.known.changed[entry.field], entry.known.tenant = counter, tenant_id
      if entry.run then
        entry.known.run, counter.ttl = entry.run, rule.ttl_ms
        run = run or { entry.run }
        run[#run + 1], run[#run + 2] = ms_text(counter.bucket), entry.field
      end
    else
      counter.limit = math.min(counter.limit, rule.limit)
      counter.ttl = entry.run and math.max(counter.ttl, rule.ttl_ms) or nil
    end
    if crosses(rule, counter, before[counter]) then
      counter.told = counter.told == '' and rule.threshold_text or counter.told .. ',' .. rule.threshold_text
      entry.policy_id = policy.id
      emit_approach(tag, tenant_id, origin, entry, counter.used)
    end
  end
  return run and table.concat(run, '\31')
end
