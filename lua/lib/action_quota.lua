-- action_quota: the quotas of the governing policy. Steps 2 and 3 of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include now_ms: ms_text
-- @include action_rules: known_rules, kind_of
-- @include keys: run_counters_key
-- @include action_counters: DAY_MS, WINDOWS, date_of, day_counters_key, read_counters
--
-- A quota counts at the deepest scope that its policy's pattern matches, and per_tenant_per_day at the tenant. Counters do not depend
-- on the policy, so a changed or another policy goes on counting, and rules that mean the same counter share it.
--
-- `facts` are what a request says of its action, with bars between: its risk class, its run, and those policy keys that its kind
-- declares: host, recipient domain and resource type. They are percent-encoded. Empty facts are those of a custom kind that the
-- deployment does not declare; no request with such a kind comes this far.
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

-- The key of the window that an entry of a plan counts in.
local function window_key_of(entry, counts)
  return entry.window.ms and date_of(entry.window, math.floor(counts.now / entry.window.ms)) or counts.run
end

-- The refusal by the rule of a step with the least left, or nil.
local function exhausted(counts, step, policy)
  local worst, least
  for i, entry in ipairs(counts.plan) do
    local left = entry.step == step and entry.rule.limit - counts.counters[i].used or 1
    if left <= 0 and (not worst or left < least) then
      worst, least = i, left
    end
  end
  if not worst then
    return nil
  end
  local entry, counter = counts.plan[worst], counts.counters[worst]
  local rule = entry.rule
  return { 'ACTION_QUOTA_EXCEEDED', entry.scope, policy.id, rule.window, window_key_of(entry, counts), ms_text(counter.used),
    ms_text(rule.limit), rule.risk_class or '' }
end

-- The quotas that cover a request, in the order of the steps, each with its field. `day` and `of_run` are the entries that count in
-- the day's hash and in that of the run, with their fields. Of several entries with one field, they have the first, which `is_first`.
local function new_plan(rules, scope, root, kind, risk_class, keys)
  local host, domain, resource = string.match(keys, '^([^|]*)|([^|]*)|([^|]*)$')
  local plan, seen = { day = { fields = {} }, of_run = { fields = {} } }, {}
  local steps = { rules.risk_quotas and rules.risk_quotas[risk_class] or {}, rules.kind_quotas and rules.kind_quotas[kind] or {} }
  for step, of_step in ipairs(steps) do
    for _, rule in ipairs(of_step) do
      if applies(rule, host, domain, resource) then
        local window = WINDOWS[rule.window]
        local at = rule.window == 'per_tenant_per_day' and root or scope
        local field = at .. '|' .. window.code .. '|' .. (rule.risk_class and RISK .. ':' .. rule.risk_class or rule.kind)
        local entry = { rule = rule, step = step, scope = at, window = window, field = field, is_first = not seen[field] }
        local part = window.ms and plan.day or plan.of_run
        plan[#plan + 1] = entry
        if entry.is_first then
          seen[field], part.fields[#part + 1], part[#part + 1] = true, field, entry
        end
      end
    end
  end
  return plan
end

-- The plans of a policy's rules for the requests of earlier runs, with the run of each. What follows from the same rules, scope, kind
-- and facts never changes.
local PLANS_KEPT = 50

local function plan_of(rules, scope, root, kind, facts)
  local name = scope .. '|' .. kind .. '|' .. facts
  local plans = rules.plans
  local known = plans and plans[name]
  if known then
    return known
  end
  if not plans or rules.plan_count == PLANS_KEPT then
    plans = {}
    rules.plans, rules.plan_count = plans, 0
  end
  local risk_class, run, keys = string.match(facts, '^([^|]*)|([^|]*)|(.*)$')
  known = { plan = new_plan(rules, scope, root, kind, risk_class, keys), run = run }
  plans[name], rules.plan_count = known, rules.plan_count + 1
  return known
end

-- The counters of a request's plan, as the calls before this one left them, in the plan's order. A run reads them once.
local function counts_of(group, tag, tenant_id, known, now)
  local counted = group.counted
  if not counted then
    counted = {}
    group.counted = counted
  end
  local counts = counted[known]
  if counts then
    return counts
  end
  local plan, run, counters, day, of_run = known.plan, known.run, {}, nil, nil
  local on_clock = group.clocks and group.clocks[tenant_id]
  if #plan.day > 0 then
    local date = math.floor(now / DAY_MS)
    if known.date ~= date then
      known.date, known.day_key = date, day_counters_key(tag, tenant_id, now)
    end
    day = read_counters(group, known.day_key, plan.day, now, on_clock)
  end
  if #plan.of_run > 0 then
    of_run = read_counters(group, run_counters_key(tag, tenant_id, run), plan.of_run, now, on_clock)
  end
  for i = 1, #plan do
    local entry = plan[i]
    counters[i] = (entry.window.ms and day or of_run).fields[entry.field]
  end
  counts = { plan = plan, counters = counters, day = day, of_run = of_run, run = of_run and run, now = now }
  counted[known] = counts
  return counts
end

-- What the policy's quotas say of a request: a refusal (ACTION_QUOTA_EXCEEDED or MISSING_RUN_ID), or nil and the counters that it
-- counts on, or nothing if no quota covers it.
local function quota_refusal(group, tag, tenant_id, scopes, policy, facts, fields, first, now)
  local rules = policy and policy.rules and known_rules(policy.rules)
  if not rules or not (rules.risk_quotas or rules.kind_quotas) then
    return nil
  end
  local known = plan_of(rules, policy.scope, scopes[1], kind_of(fields, first) or '', facts)
  local plan = known.plan
  if #plan == 0 then
    return nil
  elseif #plan.of_run > 0 and known.run == '' then
    return { 'MISSING_RUN_ID' }
  end
  local counts = counts_of(group, tag, tenant_id, known, now)
  local counters = counts.counters
  for i = 1, #plan do
    if counters[i].used >= plan[i].rule.limit then
      return exhausted(counts, 1, policy) or exhausted(counts, 2, policy)
    end
  end
  return nil, counts
end
