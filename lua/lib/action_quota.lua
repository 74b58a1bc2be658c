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

local function window_key_of(entry)
  return entry.window.ms and date_of(entry.window, math.floor(entry.time / entry.window.ms)) or entry.run
end

-- The refusal by the rule of a step with the least left, or nil.
local function exhausted(plan, step, policy)
  local worst
  for _, entry in ipairs(plan) do
    local left = entry.step == step and entry.rule.limit - entry.counter.used or 1
    if left <= 0 and (not worst or left < worst.left) then
      worst = { left = left, entry = entry }
    end
  end
  if not worst then
    return nil
  end
  local rule, counter = worst.entry.rule, worst.entry.counter
  return { 'ACTION_QUOTA_EXCEEDED', worst.entry.scope, policy.id, rule.window, window_key_of(worst.entry), ms_text(counter.used),
    ms_text(rule.limit), rule.risk_class or '' }
end

-- The quotas that cover a request, in the order of the steps, each with its field. What follows from the same rules and facts never
-- changes, so earlier runs' are kept with the rules; what a call adds to an entry is for that call.
local PLANS_KEPT = 50

local function plan_of(rules, policy, root, kind, risk_class, keys)
  local name = table.concat({ root, policy.scope, kind, risk_class, keys }, '|')
  rules.plans = rules.plans or {}
  local plan = rules.plans[name]
  if plan then
    return plan
  end
  local host, domain, resource = string.match(keys, '^([^|]*)|([^|]*)|([^|]*)$')
  plan = {}
  local steps = { rules.risk_quotas and rules.risk_quotas[risk_class] or {}, rules.kind_quotas and rules.kind_quotas[kind] or {} }
  for step, of_step in ipairs(steps) do
    for _, rule in ipairs(of_step) do
      if applies(rule, host, domain, resource) then
        local window = WINDOWS[rule.window]
        local scope = rule.window == 'per_tenant_per_day' and root or policy.scope
        plan[#plan + 1] = { rule = rule, step = step, scope = scope, window = window,
          field = scope .. '|' .. window.code .. '|' .. (rule.risk_class and RISK .. ':' .. rule.risk_class or rule.kind) }
        plan.has_run = plan.has_run or not window.ms
      end
    end
  end
  rules.plan_count = (rules.plan_count or 0) + 1
  if rules.plan_count > PLANS_KEPT then
    rules.plans, rules.plan_count = {}, 1
  end
  rules.plans[name] = plan
  return plan
end

-- What the policy's quotas say of a request: a refusal (ACTION_QUOTA_EXCEEDED or MISSING_RUN_ID), or nil and the counters that it
-- counts on, or nothing if no quota covers it.
local function quota_refusal(group, tag, tenant_id, scopes, policy, facts, fields, first, now)
  local rules = policy and policy.rules and known_rules(policy.rules)
  if not rules or not (rules.risk_quotas or rules.kind_quotas) then
    return nil
  end
  local risk_class, run, keys = string.match(facts, '^([^|]*)|([^|]*)|(.*)$')
  local plan = plan_of(rules, policy, scopes[1], kind_of(fields, first) or '', risk_class, keys)
  if #plan == 0 then
    return nil
  elseif plan.has_run and run == '' then
    return { 'MISSING_RUN_ID' }
  end
  local day_known, run_known
  for calendar = 0, plan.has_run and 1 or 0 do
    local wanted, any = {}, nil
    for _, entry in ipairs(plan) do
      if (calendar == 0) == (entry.window.ms ~= nil) then
        wanted[entry.field], any = entry.window, entry.window
      end
    end
    if any then
      local known = read_counters(group, counters_key(tag, tenant_id, any, run, now), wanted, now)
      if calendar == 0 then
        day_known = known
      else
        run_known = known
      end
    end
  end
  for _, entry in ipairs(plan) do
    entry.known, entry.run, entry.time = entry.window.ms and day_known or run_known, not entry.window.ms and run or nil, now
    entry.counter = entry.known.fields[entry.field]
  end
  local refusal = exhausted(plan, 1, policy) or exhausted(plan, 2, policy)
  if refusal then
    return refusal
  end
  return nil, plan
end
