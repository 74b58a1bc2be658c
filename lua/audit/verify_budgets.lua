#!lua flags=no-writes
-- verify_budgets: the figures of a tenant's budgets at one instant, and what is wrong with their periods and windows,
-- in bounded pages.
--
-- KEYS[1]   budget_index   sorted set of the tenant's budgets, as lib/scope_tree names them
-- ARGV[1]   after          the member at which the previous run ended, or empty
-- ARGV[2]   limit          budgets per run, at least 1
-- RETURNS   now_ms next? budgets(budget remaining? reserved? spent? allocated? debt? status? period_defect?
--           credit_defect?)*
-- BOUND     limit budgets
-- EMITS     nothing
-- @include  credit_record, int64, keys, period, scope_tree, time, window_record
--
-- A budget is named by its 'scope unit'. next is empty at the end. now_ms is the tenant's time.
-- A missing figure is empty: a verification must report damage, not fail on it.
-- period_defect: INVALID_INSTANTS, UNKNOWN_POLICY, INVALID_ALLOCATION, INVALID_BOUNDARIES; NOT_INDEXED if the job for
-- idle budgets would not roll it over at the right instant; NOT_PLANNED if no boundaries would be planned for its
-- recurrence. If the period is sound:
-- INVALID_WINDOWS, INVALID_WINDOW_PLANS, or WINDOW_NOT_PLANNED if no boundaries would be planned for one of them.
-- NOT_MARKED if reserves would not see the period, the windows, the credits, or that others wait for funds.
-- credit_defect: INVALID_CREDITS; NOT_ALLOCATED if credits and pins have more than the allocation; NOT_HELD if pins
-- have more than the holds that they are for; CREDIT_NOT_INDEXED if the job for idle budgets would not let one start
-- or end at the right instant; NOT_GRANTED if a record lacks a credit, or accounts for more or less than was granted;
-- NOT_SPENT if credits have paid more than was spent.
local budget_index = KEYS[1]
local after, limit = ARGV[1], tonumber(ARGV[2])

local tag = keys.tag_of(budget_index)
local now = time.now_ms()

local function score_of(index, member)
  local score = redis.pcall('ZSCORE', index, member)
  return type(score) == 'string' and tonumber(score) or nil
end

-- The fields of a record: period_start, period_end, rollover_policy, period_allocated, recurrence, boundaries. `status`
-- is the budget's.
local function period_defect(key, member, status, f)
  if not (f[1] or f[2] or f[4] or f[5] or f[6]) then
    return nil
  end
  local starts, ends = period.instant_of(f[1]), period.instant_of(f[2])
  if not (starts and ends and starts < ends) then
    return 'INVALID_INSTANTS'
  elseif not period.POLICIES[f[3] or 'NONE'] then
    return 'UNKNOWN_POLICY'
  elseif not int64.is_amount(f[4]) then
    return 'INVALID_ALLOCATION'
  end
  local readable, plan = pcall(period.plan_of, key, f[6] or '', ends)
  if not readable then
    return 'INVALID_BOUNDARIES'
  elseif status == 'CLOSED' then
    return nil
  end
  local score = score_of(keys.period_index(tag), member)
  -- A budget that waits for boundaries is not in the index.
  local may_be_absent = f[5] and #plan == 0 and ends <= now
  if score ~= ends and not (may_be_absent and not score) then
    return 'NOT_INDEXED'
  end
  return f[5] and not score_of(keys.period_plans(tag), member) and 'NOT_PLANNED' or nil
end

-- The fields of a record: windows, window_rules, window_plans.
local function window_defect(key, member, status, f)
  if not (f[1] or f[2] or f[3]) then
    return nil
  end
  local readable, windows = pcall(window_record.parse_windows, key, f[1] or '')
  if not readable or #window_record.rules_of(f[2]) ~= #windows then
    return 'INVALID_WINDOWS'
  elseif not pcall(window_record.parse_plans, key, f[3], windows) then
    return 'INVALID_WINDOW_PLANS'
  end
  for _, window in ipairs(windows) do
    if status ~= 'CLOSED' and not score_of(keys.period_plans(tag), member .. ' ' .. window.name) then
      return 'WINDOW_NOT_PLANNED'
    end
  end
  return nil
end

-- Whether the record of a credit accounts for no more than was granted, with `left` of it to burn or pinned.
local function is_granted(id, left)
  local f = redis.pcall('HMGET', keys.credit(tag, id), 'amount', 'lapsed', 'voided')
  if f.err or not int64.is_amount(f[1]) or not int64.is_amount(f[2] or '0') or not int64.is_amount(f[3] or '0') then
    return false
  end
  local rest = int64.sub(int64.sub(int64.sub(f[1], left), f[2] or '0'), f[3] or '0')
  return not int64.negative(rest)
end

-- `f` has the budget's fields reserved, allocated, status, credits, spent and paid_by_credits.
local function credit_defect(member, f)
  if f[6] and not (int64.is_amount(f[6]) and int64.is_amount(f[5]) and not int64.less(f[5], f[6])) then
    return 'NOT_SPENT'
  elseif not f[4] then
    return nil
  end
  local readable, credits = pcall(credit_record.parsed, f[4])
  if not readable or credit_record.text_of(credits) ~= f[4] then
    return 'INVALID_CREDITS'
  elseif f[3] == 'CLOSED' then
    return nil
  elseif not int64.is_amount(f[2]) or int64.less(f[2], credit_record.held(credits)) then
    return 'NOT_ALLOCATED'
  end
  local older = 0
  for _, pin in ipairs(credits.pins) do
    older = int64.add(older, pin.left)
    if int64.less(pin.live, older) or not int64.is_amount(f[1]) or int64.less(f[1], pin.live) then
      return 'NOT_HELD'
    end
  end
  local moment = string.match(f[4], '^%d+')
  if moment and score_of(keys.credit_index(tag), member) ~= tonumber(moment) then
    return 'CREDIT_NOT_INDEXED'
  end
  for _, list in ipairs({ credits.list, credits.pins }) do
    for _, credit in ipairs(list) do
      if not is_granted(credit.id, credit.left) then
        return 'NOT_GRANTED'
      end
    end
  end
  return nil
end

local reply = { time.ms_text(now), '' }
local members = redis.call('ZRANGEBYLEX', budget_index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local scope, unit = scope_tree.budget_of_member(member)
  local name = scope and scope .. ' ' .. unit or member
  reply[#reply + 1] = name
  local key = keys.budget(tag, unit or '', scope or member)
  local f = redis.pcall('HMGET', key, 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'status', 'period_start',
    'period_end', 'rollover_policy', 'period_allocated', 'recurrence', 'boundaries', 'windows', 'window_rules',
    'window_plans', 'extras', 'waiting', 'credits', 'paid_by_credits')
  f = f.err and {} or f
  for i = 1, 6 do
    reply[#reply + 1] = f[i] or ''
  end
  reply[#reply + 1] = period_defect(key, name, f[6], { unpack(f, 7, 12) })
    or window_defect(key, name, f[6], { unpack(f, 13, 15) })
    or (f[8] or f[13] or f[17] or f[18]) and not f[16] and 'NOT_MARKED' or ''
  reply[#reply + 1] = credit_defect(name, { f[2], f[4], f[6], f[18], f[3], f[19] }) or ''
end
if #members == limit then
  reply[2] = members[limit]
end
return reply
