#!lua flags=no-writes
-- forecast_funds: what the budgets lack for an amount, and when holds that end, new periods or new windows will have
-- returned it.
--
-- KEYS[1]   ttl_index       zset, score = reclaim deadline in ms
-- ARGV[1]   tenant_id       the owner of the budgets
-- ARGV[2]   unit
-- ARGV[3]   amount          int64 as a decimal string: what a request wanted to hold or charge at each scope
-- ARGV[4]   reservation_id  the hold that a commit settles, or empty
-- ARGV[5]   use             hold; charge, which neither debt nor an over-limit mark refuses; or overdraft, a charge
--           that may become debt
-- ARGV[...] scope and amount pairs: where a request wanted how much; none for a commit, whose hold has the scopes
-- RETURNS   FORECAST now_ms scope remaining requested short_by enough_at_ms? unknown window? holds(amount deadline_ms)*
-- BOUND     scopes of the subjects of one set (at most 8 with 6), the next period and the next windows of each;
--           48 entries of the index, four fields of each hold
-- EMITS     nothing
-- @include  budget_figures, budget_templates, field, hold_record, int64, keys, period, template_record, tenant_state,
--           time, window_record
--
-- The reply describes the first scope, from the root, that lacks something, or a window of its budget if only that
-- does. `holds` are the first five to end there that return something, each with that amount and the instant at which
-- it is back at the latest; what an expiry charges does not return. enough_at_ms is the instant at which all scopes
-- have enough if nothing else happens. If it is empty, `unknown` says why: TOO_MANY_HOLDS if more holds live in the
-- partition than the script reads, else FUNDING_REQUIRED. The next period of each budget and the next turn of each
-- window count, later ones do not. They may also leave less than the current ones. Behind the last hold that the script
-- reads, they give an instant that is not always the first. Holds that only a cleanup ends are in another index and do
-- not count. If nothing is lacking any more, scope is empty and enough_at_ms is now_ms.
local ttl_index = KEYS[1]
local tenant_id, unit, amount, reservation_id, use, first_scope = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], 6
local HOLDS_READ, HOLDS_LISTED, MOST = 48, 5, '9223372036854775807'

local tag = keys.tag_of(ttl_index)
local now = time.now_ms()
local requested, scopes, wanted = int64.figure(amount), {}, {}
for i = first_scope, #ARGV, 2 do
  scopes[#scopes + 1], wanted[ARGV[i]] = ARGV[i], int64.figure(ARGV[i + 1])
end
if reservation_id ~= '' then
  local hold = hold_record.load_hold(keys.reservation(tag, reservation_id))
  local held = hold and hold.tenant == tenant_id and int64.is_amount(hold.amount) and int64.figure(hold.amount)
  scopes = held and hold.subject.held or {}
  requested = held and int64.sub(requested, held) or requested
end

-- The limits that the amount must fit in: each budget, then its windows. `need` is what one needs beyond what remains,
-- `returned` what holds have returned to it since, `is_blocked` whether its budget refuses holds of any amount. `count`
-- is how many lack something.
local limits, limits_at, count, boundaries = {}, {}, 0, {}

local function lacks(limit)
  return limit.is_blocked or int64.less(limit.returned, limit.need)
end

local function change(limit, need, returned, is_blocked)
  count = count - (lacks(limit) and 1 or 0)
  limit.need, limit.returned, limit.is_blocked = need, returned, is_blocked
  count = count + (lacks(limit) and 1 or 0)
end

local function need_of(limit, remaining, slack)
  local need = int64.sub(wanted[limit.scope] or requested, int64.figure(remaining))
  return need and int64.sub(need, slack or 0) or MOST
end

local function add_limit(limit, slack)
  limit.need, limit.returned = need_of(limit, limit.remaining, slack), 0
  count = count + (lacks(limit) and 1 or 0)
  limits[#limits + 1] = limit
  local at_scope = limits_at[limit.scope] or {}
  at_scope[#at_scope + 1], limits_at[limit.scope] = limit, at_scope
end

-- Whether the budget refuses every hold.
local function is_blocked(budget)
  return use == 'hold'
    and (budget_figures.budget_over_limit(budget) or int64.positive(budget.debt)
    and not int64.positive(budget.overdraft_limit))
end

-- By how much the debt of a budget may still grow.
local function slack_of(budget)
  local slack = use == 'overdraft' and int64.sub(budget.overdraft_limit, budget.debt) or 0
  return int64.negative(slack) and 0 or slack
end

-- The budget as it is in the current period. The second value is its state in the next one, if it has one.
local function read_periods(budget)
  if not budget.period_end or budget.status == 'CLOSED' then
    return budget
  end
  local periods = period.read_period(budget.key, budget.scope)
  local states = period.states_until(periods, now)
  local current = states[#states] or periods
  local following = period.states_until(periods, current.ends)
  local next_one = following[#following]
  return current, next_one and next_one.starts == current.ends and next_one
end

local function add_budget(budget)
  local readable, current, next_one = pcall(read_periods, budget)
  current = readable and current or budget
  local slack = slack_of(current)
  local limit = { scope = budget.scope, remaining = current.remaining, is_blocked = is_blocked(current) }
  add_limit(limit, slack)
  if readable and next_one then
    boundaries[#boundaries + 1] = { instant = current.ends, limit = limit,
      need = need_of(limit, next_one.remaining, slack), is_blocked = is_blocked(next_one) }
  end
end

-- What becomes debt is capped by windows, not refused.
local function add_windows(budget)
  local reserved = budget.reserved_figure
  for _, window in ipairs(window_record.current_windows(budget.key, budget.windows_text, budget.status, now)) do
    local limit = { scope = budget.scope, window = window.name,
      remaining = int64.text(window_record.window_room(window, reserved)) }
    add_limit(limit)
    if window.ends > now then
      local turned = { limit = window.limit, spent = 0 }
      boundaries[#boundaries + 1] = { instant = window.ends, limit = limit,
        need = need_of(limit, int64.text(window_record.window_room(turned, reserved))) }
    end
  end
end

local tenant = tenant_state.read_tenant(keys.tenant(tag, tenant_id))
-- What a request finds at a scope: its budget, or the one that a template would make.
local function budget_at(scope)
  local budget = budget_figures.read_budget(tag, unit, scope)
  if budget or reservation_id ~= '' or not tenant or not tenant.templates then
    return budget
  end
  local birth = budget_templates.birth_at(tag, tenant_id, tenant.templates, unit, scope, now)
  return birth and budget_figures.parse_budget(birth.key, scope, template_record.fields_of(birth))
end

for _, scope in ipairs(scopes) do
  local readable, budget = pcall(budget_at, scope)
  if readable and budget then
    add_budget(budget)
    if budget.windows_text and use ~= 'overdraft' then
      pcall(add_windows, budget)
    end
  end
end
local first
for i = #limits, 1, -1 do
  first = lacks(limits[i]) and limits[i] or first
end
table.sort(boundaries, function(a, b) return a.instant < b.instant end)
if not first then
  return { 'FORECAST', time.ms_text(now), '', '', int64.text(requested), '0', time.ms_text(now), '', '' }
end

local owner, enough_at, holds = tenant_id .. '\31', '', {}

-- The subject of a live hold of this tenant in this unit, and the amount that its expiry returns; or nil. A damaged
-- record returns nothing.
local function live_hold(id)
  local key = keys.reservation(tag, id)
  local record = redis.pcall('HMGET', key, field.state, field.subject, field.amount, field.charge_on_expiry)
  if record.err or record[1] ~= 'ACTIVE' or id == reservation_id or not int64.is_amount(record[3]) then
    return nil
  end
  local charge = record[4] or '0'
  if not int64.is_amount(charge) or not int64.less(charge, record[3]) then
    return nil
  end
  local text = record[2]
  if text and string.sub(text, 1, #owner) ~= owner then
    return nil
  end
  local subject = text and hold_record.known_subject(text) or not text and hold_record.load_hold(key).subject
  if subject.tenant == tenant_id and subject.unit == unit then
    return subject, int64.text(int64.sub(record[3], charge))
  end
end

-- Lets the periods and windows begin that do so up to an instant.
local function pass_boundaries(instant)
  while boundaries[1] and boundaries[1].instant <= instant and enough_at == '' do
    local boundary = table.remove(boundaries, 1)
    change(boundary.limit, boundary.need, boundary.limit.returned, boundary.is_blocked)
    if count == 0 and (not boundaries[1] or boundaries[1].instant > boundary.instant) then
      enough_at = time.ms_text(boundary.instant)
    end
  end
end

local entries = redis.call('ZRANGE', ttl_index, 0, HOLDS_READ - 1, 'WITHSCORES')
for i = 1, #entries, 2 do
  local subject, held = live_hold(entries[i])
  local deadline = tonumber(entries[i + 1])
  -- A hold ends when its deadline has passed.
  local ends_at = math.max(deadline, now) + 1
  pass_boundaries(ends_at)
  for _, scope in ipairs(subject and subject.held or {}) do
    if scope == first.scope and #holds < HOLDS_LISTED * 2 then
      holds[#holds + 1], holds[#holds + 2] = held, time.ms_text(deadline)
    end
    for _, limit in ipairs(limits_at[scope] or {}) do
      change(limit, limit.need, int64.figure(int64.text(int64.saturating_add(limit.returned, int64.figure(held)))),
        limit.is_blocked)
    end
  end
  if count == 0 and enough_at == '' then
    enough_at = time.ms_text(ends_at)
  end
  if enough_at ~= '' and #holds == HOLDS_LISTED * 2 then
    break
  end
end
pass_boundaries(math.huge)
local unknown = ''
if enough_at == '' then
  unknown = #entries == HOLDS_READ * 2 and 'TOO_MANY_HOLDS' or 'FUNDING_REQUIRED'
end
requested = wanted[first.scope] or requested
local short_by = int64.sub(requested, int64.figure(first.remaining)) or MOST
return { 'FORECAST', time.ms_text(now), first.scope, first.remaining, int64.text(requested),
  int64.negative(short_by) and '0' or int64.text(short_by), enough_at, unknown, first.window or '', unpack(holds) }
