-- action_quota: the quotas of the governing policy. Steps 2 and 3 of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include action_counters, action_rules, kept_counters, keys, time
--
-- A quota counts at the deepest scope that its policy's pattern matches, and per_tenant_per_day at the tenant. Counters
-- do not depend on the policy, so a changed or another policy goes on counting, and rules that mean the same counter
-- share it.
--
-- `facts` are what a request says of its action, with bars between: its risk class, its run, and those policy keys that
-- its kind declares: host, recipient domain and resource type. They are percent-encoded. Empty facts are those of a
-- custom kind that the deployment does not declare; no request with such a kind comes this far.
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
local function window_key_of(entry, plan)
  return entry.window.ms and action_counters.date_of(entry.window, math.floor(plan.now / entry.window.ms)) or plan.run
end

-- The refusal by the rule of a step with the least left, or nil.
local function exhausted(plan, step, policy)
  local worst, least, worst_used
  for _, entry in ipairs(plan) do
    local used = kept_counters.count_of(entry)
    local left = entry.step == step and entry.rule.limit - used or 1
    if left <= 0 and (not worst or left < least) then
      worst, least, worst_used = entry, left, used
    end
  end
  if not worst then
    return nil
  end
  local rule = worst.rule
  return { 'ACTION_QUOTA_EXCEEDED', worst.scope, policy.id, rule.window, window_key_of(worst, plan),
    time.ms_text(worst_used), time.ms_text(rule.limit),
    rule.risk_class or '' }
end

-- Adds a rule to a plan. Rules that mean the same counter share an index in their part, the lowest limit and the
-- longest time to live.
local function add_entry(plan, step, rule, scope)
  local window, name = action_counters.WINDOWS[rule.window], rule.risk_class and RISK .. ':' .. rule.risk_class
    or rule.kind
  local part, field = window.ms and plan.day or plan.of_run, scope .. '|' .. window.code .. '|' .. name
  local index = part.index_of[field]
  plan.has_doubles = plan.has_doubles or index ~= nil
  index = index or #part + 1
  local entry = { rule = rule, step = step, scope = scope, window = window, field = field, part = part, index = index }
  plan[#plan + 1] = entry
  part[index] = part[index] or entry
  part.index_of[field], part.fields[index], part.crossings[index] = index, field, rule.crossing
  part.limits[index] = math.min(part.limits[index] or rule.limit, rule.limit)
  part.ttls[index] = math.max(part.ttls[index] or 0, rule.ttl_ms)
end

local function new_part()
  return { index_of = {}, fields = {}, limits = {}, crossings = {}, ttls = {} }
end

-- The quotas that cover a request, in the order of the steps. `day` and `of_run` are the parts that count in the day's
-- hash and in that of the run.
local function new_plan(rules, scope, root, kind, facts)
  local risk_class, run, key_list = string.match(facts, '^([^|]*)|([^|]*)|(.*)$')
  local host, domain, resource = string.match(key_list, '^([^|]*)|([^|]*)|([^|]*)$')
  local plan = { day = new_part(), of_run = new_part(), run = run }
  local steps = { rules.risk_quotas and rules.risk_quotas[risk_class] or {},
    rules.kind_quotas and rules.kind_quotas[kind] or {} }
  for step, of_step in ipairs(steps) do
    for _, rule in ipairs(of_step) do
      if applies(rule, host, domain, resource) then
        add_entry(plan, step, rule, rule.window == 'per_tenant_per_day' and root or scope)
      end
    end
  end
  return plan
end

-- The plans of a policy's rules for the requests of earlier runs. What follows from the same rules, scope, kind and
-- facts never changes.
local PLANS_KEPT = 50

local function plan_of(rules, scope, root, kind, facts)
  local plans = rules.plans
  local of_scope = plans and plans[scope]
  local of_kind = of_scope and of_scope[kind]
  local plan = of_kind and of_kind[facts]
  if plan then
    return plan
  end
  if not plans or rules.plan_count == PLANS_KEPT then
    plans, of_scope, of_kind = {}, nil, nil
    rules.plans, rules.plan_count = plans, 0
  end
  of_scope, of_kind = of_scope or {}, of_kind or {}
  plan = new_plan(rules, scope, root, kind, facts)
  plans[scope], of_scope[kind], of_kind[facts], rules.plan_count = of_scope, of_kind, plan, rules.plan_count + 1
  return plan
end

-- Reads the counters of a plan, as the calls before this one left them, once in a run.
local function read_plan(group, tag, tenant_id, plan, now)
  local turn = kept_counters.turn_of(group)
  if plan.turn == turn then
    return
  end
  if plan.day[1] then
    local date = math.floor(now / action_counters.DAY_MS)
    if plan.date ~= date then
      plan.date, plan.day_key = date, action_counters.day_counters_key(tag, tenant_id, now)
    end
    kept_counters.read_counters(group, plan.day, plan.day_key, tenant_id, nil, now)
  end
  if plan.of_run[1] then
    plan.run_key = plan.run_key or keys.run_counters(tag, tenant_id, plan.run)
    kept_counters.read_counters(group, plan.of_run, plan.run_key, tenant_id, plan.run, now)
  end
  plan.turn, plan.now = turn, now
end

-- What the policy's quotas say of a request: a refusal (ACTION_QUOTA_EXCEEDED or MISSING_RUN_ID), or nil and the plan
-- that it counts by, or nothing if no quota covers it. The plan's `needs_checks` says whether counting it may be more
-- than adding one.
local function quota_refusal(group, tag, tenant_id, scopes, policy, facts, fields, first, now)
  local rules = policy and policy.rules and action_rules.known_rules(policy.rules)
  if not rules or not (rules.risk_quotas or rules.kind_quotas) then
    return nil
  end
  local plan = plan_of(rules, policy.scope, scopes[1], action_rules.kind_of(fields, first) or '', facts)
  if not plan[1] then
    return nil
  elseif plan.of_run[1] and plan.run == '' then
    return { 'MISSING_RUN_ID' }
  end
  read_plan(group, tag, tenant_id, plan, now)
  local is_full, is_run_full, needs_checks, run_needs_checks = false, false, false, false
  if plan.day[1] then
    is_full, needs_checks = kept_counters.limits_of(plan.day)
  end
  if plan.of_run[1] then
    is_run_full, run_needs_checks = kept_counters.limits_of(plan.of_run)
  end
  if is_full or is_run_full then
    return exhausted(plan, 1, policy) or exhausted(plan, 2, policy)
  end
  plan.needs_checks = needs_checks or run_needs_checks or plan.has_doubles
  return nil, plan
end

return { quota_refusal = quota_refusal, window_key_of = window_key_of }
