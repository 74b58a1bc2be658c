-- template_record: a template that makes budgets. lua/ledger/lib/budget_templates.lua says which one makes which.
-- @include budget_figures, credit_record, granted_credits, keys, period_starts, time, window_record
--
-- A hash: tenant_id, scope_pattern, unit, allocated, overdraft_limit, created_at, updated_at, revision, and what else
-- it sets:
-- commit_overage_policy, rollover_policy, metadata; period_ms, or recurrence with its `boundaries`; window_limits
-- (name,limit of each, with spaces between), window_rules and window_plans, as a budget has them; and `credits`, which
-- each budget gets: amount, lasts_ms, name, category, priority, notify_before_ms and metadata of each with 0x1f between
-- them, and 0x1e between credits. The service plans the boundaries ahead, as it does for budgets.

local FIELDS = { 'tenant_id', 'unit', 'allocated', 'overdraft_limit', 'revision', 'commit_overage_policy',
  'rollover_policy', 'metadata', 'period_ms', 'recurrence', 'boundaries', 'window_limits', 'window_rules',
  'window_plans', 'credits' }
local CREDIT_FORM = '^(%d+)\31(%d+)\31([^\31]+)\31([^\31]*)\31(%d+)\31(%d*)\31([^\31]*)$'

local function instants_of(text)
  local instants = {}
  for instant in string.gmatch(text or '', '%d+') do
    instants[#instants + 1] = instant
  end
  return instants
end

-- Gives a birth the period that begins with it: for a length of time, or until the next boundary of the calendar.
local function add_period(birth, template, now)
  if template.period_ms then
    birth.period = { starts = time.ms_text(now), ends = time.ms_text(now + tonumber(template.period_ms)) }
  elseif template.recurrence then
    local following = period_starts.boundaries_after(instants_of(template.boundaries), 1, now)
    if #following < 2 then
      birth.is_unplanned = true
      return
    end
    birth.period = { starts = time.ms_text(now), ends = table.remove(following, 1) }
    birth.recurrence, birth.following = template.recurrence, following
  end
end

local function add_windows(birth, template, former, now)
  if not template.window_limits then
    return
  end
  local plans = {}
  for plan in string.gmatch(template.window_plans, '[^|]+') do
    plans[#plans + 1] = plan
  end
  birth.windows, birth.rules, birth.plans = {}, window_record.rules_of(template.window_rules), {}
  for name, limit in string.gmatch(template.window_limits, '([^ ,]+),(%d+)') do
    local i = #birth.windows + 1
    birth.windows[i], birth.plans[i] = window_record.begun_window(name, limit, plans[i] or '', former[name], now)
    if not birth.windows[i] then
      birth.is_unplanned = true
      return
    end
  end
end

-- What the template's credits are to a budget that is made now. Each has one id in a budget, which follows from its
-- name.
local function grants_of(template, key, tag, unit, scope, now)
  local grants = {}
  for text in string.gmatch(template.credits, '[^\30]+') do
    local amount, lasts_ms, name, category, priority, notify_before_ms, metadata = string.match(text, CREDIT_FORM)
    if not amount then
      error('corrupt budget template ' .. key .. ': its credits cannot be read')
    end
    local id = 'crd_' .. string.sub(tag, 3, 4) .. string.sub(redis.sha1hex(scope .. ' ' .. unit .. ' ' .. name), 1, 16)
    grants[#grants + 1] = { id = id, amount = amount, name = name, category = category, priority = priority,
      starts = now, ends = now + tonumber(lasts_ms), notify_before_ms = notify_before_ms, metadata = metadata }
  end
  return grants
end

-- What a template makes at a scope, as lua/lib/budget_birth.lua takes it, with the `grants` of its credits, if it has
-- any. `former` has the windows by name that go on,
-- if any. It `is_unplanned` if the boundaries that the template has are over, as after days in which nothing has run:
-- only the service can plan others.
local function birth_of(tag, tenant_id, template_id, unit, scope, now, former)
  local key, template = keys.budget_template(tag, tenant_id, template_id), {}
  local stored = redis.call('HMGET', key, unpack(FIELDS))
  for i = 1, #FIELDS do
    template[FIELDS[i]] = stored[i] or nil
  end
  if template.tenant_id ~= tenant_id or template.unit ~= unit or not template.allocated
    or not template.overdraft_limit then
    error('corrupt budget template ' .. key)
  end
  local fields = {}
  for _, name in ipairs({ 'commit_overage_policy', 'rollover_policy', 'metadata' }) do
    if template[name] then
      fields[#fields + 1], fields[#fields + 2] = name, template[name]
    end
  end
  -- A tenant has at most one budget of a scope and unit, ever, so the hash of both names it.
  local ledger_id = 'ldg_' .. string.sub(tag, 3, 4) .. string.sub(redis.sha1hex(scope .. ' ' .. unit), 1, 16)
  local birth = { key = keys.budget(tag, unit, scope), tenant_id = tenant_id, ledger_id = ledger_id, scope = scope,
    unit = unit, allocated = template.allocated, overdraft_limit = template.overdraft_limit,
    fields = fields, template_id = template_id, revision = template.revision }
  birth.grants = template.credits and grants_of(template, key, tag, unit, scope, now)
  add_period(birth, template, now)
  add_windows(birth, template, former or {}, now)
  return birth
end

-- The record that a birth will have, as budget_figures.budget_fields returns it. If it has grants, it gets their
-- `plan`, as granted_credits makes it.
local function fields_of(birth)
  local overage_policy = false
  for i = 1, #birth.fields, 2 do
    overage_policy = birth.fields[i] == 'commit_overage_policy' and birth.fields[i + 1] or overage_policy
  end
  local f = { birth.allocated, '0', '0', birth.allocated, '0', birth.overdraft_limit, '0', 'ACTIVE', overage_policy,
    false, birth.period and birth.period.ends or false,
    birth.windows and window_record.windows_text(birth.windows) or false }
  if birth.grants then
    local budget = budget_figures.parse_budget(birth.key, birth.scope, f)
    budget.ledger_id = birth.ledger_id
    birth.plan = granted_credits.plan(budget, birth.grants, birth.grants[1].starts)
    f[1], f[4], f[13] = birth.plan.figures.remaining, birth.plan.figures.allocated,
      credit_record.text_of(birth.plan.credits)
  end
  return f
end

-- Those of the grants of which a budget has not noted that it got them.
local function new_grants(birth, given)
  local grants = {}
  for _, grant in ipairs(birth.grants or {}) do
    if not string.find(given or '', grant.id, 1, true) then
      grants[#grants + 1] = grant
    end
  end
  return grants
end

return { birth_of = birth_of, fields_of = fields_of, new_grants = new_grants }
