-- action_quota: the quotas of the governing policy. Steps 2 and 3 of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include now_ms: ms_text
-- @include action_rules: known_rules, kind_of
-- @include action_counters: WINDOWS, date_of, counters_key, read_counters
--
-- A quota counts at the deepest scope that its policy's pattern matches, and per_tenant_per_day at the tenant. Counters do not depend
-- on the policy, so a changed or another policy goes on counting, and rules that mean the same counter share it.
--
-- `facts` are what a request says of its action, with bars between: its risk class, its run, and those policy keys that its kind
-- declares: host, recipient domain and resource type. They are percent-encoded.
local RISK = '__risk__'

local function decoded(text)
  return (string.gsub(text, '%%(%x%x)', function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- Whether a rule covers the action. An allowlist covers no action that does not say where it goes.
local function applies(rule, host, domain, resource)
  return (not rule.hosts or rule.hosts[string.lower(decoded(host))] ~= nil)
    and (not rule.domains or rule.domains[string.lower(decoded(domain))] ~= nil)
    and (not rule.resources or rule.resources[decoded(resource)] ~= nil)
end

-- The refusal by the rule with the least left, or nil.
local function exhausted(entries, policy)
  local worst
  for _, entry in ipairs(entries) do
    local left = entry.rule.limit - entry.counter.used
    if left <= 0 and (not worst or left < worst.left) then
      worst = { left = left, entry = entry }
    end
  end
  if not worst then
    return nil
  end
  local rule, counter = worst.entry.rule, worst.entry.counter
  return { 'ACTION_QUOTA_EXCEEDED', worst.entry.scope, policy.id, rule.window, worst.entry.window_key(), ms_text(counter.used),
    ms_text(rule.limit), rule.risk_class or '' }
end

-- What the policy's quotas say of a request: a refusal (ACTION_QUOTA_EXCEEDED or MISSING_RUN_ID), or nil and the counters that it
-- counts on, or nothing if no quota covers it.
local function quota_refusal(group, tag, tenant_id, scopes, policy, facts, fields, first, now)
  local rules = policy and policy.rules and known_rules(policy.rules)
  if not rules or not (rules.risk_quotas or rules.kind_quotas) then
    return nil
  end
  local risk_class, run, host, domain, resource = string.match(facts, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  local by_step, wanted = {}, {}
  local kind = kind_of(fields, first)
  local steps = { rules.risk_quotas and rules.risk_quotas[risk_class] or {}, rules.kind_quotas and rules.kind_quotas[kind] or {} }
  for step, of_step in ipairs(steps) do
    local entries = {}
    for _, rule in ipairs(of_step) do
      if applies(rule, host, domain, resource) then
        local window = WINDOWS[rule.window]
        if not window.ms and run == '' then
          return { 'MISSING_RUN_ID' }
        end
        local scope = rule.window == 'per_tenant_per_day' and scopes[1] or policy.scope
        local key = counters_key(tag, tenant_id, window, run, now)
        local field = window.code .. '|' .. scope .. '|' .. (rule.risk_class and RISK .. ':' .. rule.risk_class or rule.kind)
        wanted[key] = wanted[key] or {}
        wanted[key][field] = window
        entries[#entries + 1] = { rule = rule, scope = scope, key = key, field = field, run = not window.ms and run or nil,
          window_key = function()
            return window.ms and date_of(window, math.floor(now / window.ms)) or run
          end }
      end
    end
    by_step[step] = entries
  end
  if #by_step[1] + #by_step[2] == 0 then
    return nil
  end
  for key, windows in pairs(wanted) do
    wanted[key] = read_counters(group, key, windows, now)
  end
  local counts = {}
  for _, entries in ipairs(by_step) do
    for _, entry in ipairs(entries) do
      entry.known = wanted[entry.key]
      entry.counter = entry.known.fields[entry.field]
      counts[#counts + 1] = entry
    end
    local refusal = exhausted(entries, policy)
    if refusal then
      return refusal
    end
  end
  return nil, counts
end
