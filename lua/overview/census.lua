#!lua flags=no-writes
-- census: count a partition's tenants, budgets, webhook subscriptions, policies and counters of quotas, a bounded run
-- at a time.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant           where the run before ended, or empty
-- ARGV[2]   kind             what it counted of that tenant: budgets, webhooks, policies, day, runs or nothing more;
--           empty at the start
-- ARGV[3]   after            the member that ended it, of day and runs the cursor, or empty
-- ARGV[4]   limit            records a run, at least 1
-- ARGV[5]   with_system      1 where the operators' own subscriptions stand in this partition
-- RETURNS   now_ms next_tenant? next_kind? next_after? examined:int text_count counts{}
--           sums_count sums(tenant_id unit allocated spent reserved debt)*
--           budgets_count budgets(scope unit over:flag allocated remaining debt overdraft_limit)*
--           webhooks_count webhooks(subscription_id url failures:int failed_at_ms:text?)*
--           damaged_count damaged(kind record)* quotas(scope action_kind window used:int limit:int)*
-- BOUND     limit records, a tenant counts as one, and of each a few short fields; whether the scopes above a budget
--           have one; of counters as many more as a scan returns at once, and 100 of a run
-- EMITS     nothing
-- @include  action_counters, int64, keys, listing, lists, scope_tree, time
--
-- The following run starts at next_tenant. There is none at the end. The budgets that are listed are over their limit
-- or have debt, and are not closed. sums are those of a tenant's topmost budgets, in one row or more a unit: budgets
-- below them have the same charges and holds again. A reservation that is older than the topmost budget is not in it.
-- The subscriptions that are listed have failures in a row, and are not disabled; the counters that are listed are
-- those most used in proportion to their limit. A damaged tenant, budget or subscription counts as far as it can be
-- read, and is named; none of it is in a list or a sum. So is an index of another type.
local tenant_index = KEYS[1]
local tenant, kind, after, limit, with_system = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local SYSTEM = '__system__'
local STATUSES = {
  tenant = { ACTIVE = true, SUSPENDED = true, CLOSED = true },
  budget = { ACTIVE = true, FROZEN = true, CLOSED = true },
  webhook = { ACTIVE = true, PAUSED = true, DISABLED = true },
}
local RECORDS = { budgets = 'budget', webhooks = 'webhook', policies = 'policy' }
local QUOTAS_LISTED, OF_A_RUN = 10, 100
local MINUS = string.byte('-')
-- The first number with more digits than lib/int64 adds as numbers.
local NO_FIGURE = 1e15

local tag = keys.tag_of(tenant_index)
local left = limit
local counts, budgets, webhooks, damaged, quotas = {}, {}, {}, {}, {}
local sums, sum_rows, budgeted, tops = {}, {}, {}, {}
local now = time.now_ms()
local next_tenant, next_kind, next_after = '', '', ''

local function count(name)
  counts[name] = (counts[name] or 0) + 1
end

local function name_damaged(kind_of_record, id)
  damaged[#damaged + 1], damaged[#damaged + 2] = kind_of_record, id
end

-- The form in which this service writes a figure that may be negative.
local function is_figure(text)
  return int64.is_amount(text)
    or (text and text ~= '-0' and string.byte(text) == MINUS and int64.is_amount(string.sub(text, 2)))
end

-- A number or an instant in ms that a double holds exactly.
local function is_count(text)
  return #text <= 15 and string.find(text, '^%d+$') ~= nil
end

-- Fields of a record, none if that is no hash.
local function fields_of(key, ...)
  local values = redis.pcall('HMGET', key, ...)
  return values.err and {} or values
end

local function count_tenant(id)
  local record = fields_of(keys.tenant(tag, id), 'status', 'observe_mode')
  count('tenants')
  count('tenants.' .. (record[1] or ''))
  if not STATUSES.tenant[record[1]] then
    name_damaged('tenant', id)
  end
  if record[2] and record[2] ~= 'ENFORCE' then
    count('tenants.observe_mode')
  end
end

-- Whether a scope above this one has a budget in the unit. In the order of the index, budgets follow the one at their
-- top.
local function is_budgeted_above(scope, unit)
  local top = tops[unit]
  if top and string.sub(scope, 1, #top) == top then
    return true
  end
  local known = budgeted[unit]
  if not known then
    known = {}
    budgeted[unit] = known
  end
  local slash = string.find(scope, '/', 1, true)
  while slash do
    local above = string.sub(scope, 1, slash - 1)
    if known[above] == nil then
      known[above] = redis.call('EXISTS', keys.budget(tag, unit, above)) == 1
    end
    if known[above] then
      tops[unit] = above .. '/'
      return true
    end
    slash = string.find(scope, '/', slash + 1, true)
  end
  tops[unit] = scope .. '/'
  return false
end

local function append_sum(owner, unit, sum)
  sum_rows[#sum_rows + 1], sum_rows[#sum_rows + 2] = owner, unit
  for _, figure in ipairs(sum) do
    sum_rows[#sum_rows + 1] = int64.text(figure)
  end
end

-- The sum of two figures, a figure again however many were added; nil if it leaves int64.
local function added(figure, other)
  local sum = int64.add(figure, other)
  return type(sum) == 'number' and sum >= NO_FIGURE and int64.text(sum) or sum
end

-- Adds the figures of a budget to the sums of its tenant, in a further row where they would leave int64.
local function add_to_sums(scope, unit, allocated, spent, reserved, debt)
  if is_budgeted_above(scope, unit) or not int64.is_amount(spent) or string.byte(allocated) == MINUS
    or string.byte(reserved) == MINUS or string.byte(debt) == MINUS then
    return
  end
  local owner = string.match(scope, '^tenant:([^/]+)')
  if not owner then
    return
  end
  local of_tenant = sums[owner] or {}
  local before = of_tenant[unit]
  allocated, spent = int64.figure(allocated), int64.figure(spent)
  reserved, debt = int64.figure(reserved), int64.figure(debt)
  if before then
    local a, s, r, d = added(before[1], allocated), added(before[2], spent), added(before[3], reserved),
      added(before[4], debt)
    if a and s and r and d then
      before[1], before[2], before[3], before[4] = a, s, r, d
      return
    end
    append_sum(owner, unit, before)
  end
  sums[owner], of_tenant[unit] = of_tenant, { allocated, spent, reserved, debt }
end

local function count_budget(member)
  local scope, unit = scope_tree.budget_of_member(member)
  if not scope then
    return name_damaged('budget', member)
  end
  local record = fields_of(keys.budget(tag, unit, scope), 'status', 'is_over_limit', 'debt', 'overdraft_limit',
    'allocated', 'remaining', 'reserved', 'spent')
  local status, debt, overdraft_limit = record[1] or '', record[3] or '', record[4] or ''
  count('budgets')
  count('budgets.' .. status)
  count('unit.' .. unit)
  local is_whole = STATUSES.budget[status]
  for i = 3, 7 do
    is_whole = is_whole and is_figure(record[i])
  end
  if not is_whole then
    return name_damaged('budget', scope .. ' ' .. unit)
  end
  add_to_sums(scope, unit, record[5], record[8], record[7], debt)
  local over = record[2] == '1' or (int64.positive(overdraft_limit) and int64.less(overdraft_limit, debt))
  local indebted = int64.positive(debt)
  if status == 'CLOSED' or not (over or indebted) then
    return
  end
  if over then
    count('budgets.over_limit')
  end
  if indebted then
    count('budgets.with_debt')
  end
  lists.append_all(budgets, { scope, unit, over and '1' or '0', record[5], record[6], debt, overdraft_limit })
end

local function count_webhook(id)
  local key = keys.webhook(tag, id)
  local record = fields_of(key, 'st', 'cf', 'lf')
  count('webhooks')
  count('webhooks.' .. (record[1] or ''))
  if not STATUSES.webhook[record[1]] or not is_count(record[2] or '0') or not is_count(record[3] or '0') then
    return name_damaged('webhook', id)
  end
  local failures = tonumber(record[2] or '0')
  if failures > 0 and record[1] ~= 'DISABLED' then
    count('webhooks.with_failures')
    lists.append_all(webhooks, { id, redis.call('HGET', key, 'ur') or '', record[2], record[3] or '' })
  end
end

local function count_policy(id)
  local key = keys.policy(tag, id)
  -- Most policies have no rules on actions. Of a policy that is no hash, this is an error, which is no 1.
  if redis.pcall('HEXISTS', key, 'rules') == 1 then
    if redis.call('HEXISTS', key, 'allowed_action_kinds') == 1 then
      count('policies.allowed')
    end
    if redis.call('HEXISTS', key, 'denied_action_kinds') == 1 then
      count('policies.denied')
    end
  end
end

-- Counts the counters among the fields and values of a hash that still count.
local function count_counters(flat)
  for i = 1, #flat, 2 do
    local scope, window, action_kind = action_counters.parts_of_field(flat[i])
    local counter = action_counters.parse_counter(flat[i + 1])
    if window and counter and counter.used > 0
      and action_counters.is_current(action_counters.WINDOWS[window], counter, now) then
      local used_part = counter.used / math.max(counter.limit, 1)
      if used_part >= 0.8 then
        count('quotas.above_80pct')
      end
      if used_part >= 1 then
        count('quotas.at_limit')
      end
      quotas[#quotas + 1] =
        { part = used_part, scope, action_kind, window, time.ms_text(counter.used), time.ms_text(counter.limit) }
    end
  end
end

local function count_run(owner, run)
  count_counters(redis.call('HSCAN', keys.run_counters(tag, owner, run), '0', 'COUNT', OF_A_RUN)[2])
end

local function scan_hash(key, cursor)
  return redis.call('HSCAN', key, cursor, 'COUNT', left)
end

local function scan_set(key, cursor)
  return redis.call('ZSCAN', key, cursor, 'COUNT', left)
end

-- Scans what a tenant has under a key from a cursor on. Returns false when the run ends there; then the next one starts
-- there, or with the `following` kind.
local function scan_all(owner, this_kind, following, scan, key, cursor, count_some)
  cursor = cursor == '' and '0' or cursor
  while left > 0 do
    local step = scan(key, cursor)
    count_some(step[2])
    cursor, left = step[1], math.max(0, left - math.max(1, #step[2] / 2))
    if cursor == '0' and left > 0 then
      return true
    elseif cursor == '0' then
      this_kind, cursor = following, ''
    end
  end
  next_tenant, next_kind, next_after = owner, this_kind, cursor
  return false
end

-- The counters of a tenant's quotas: of the day, and of its runs.
local function count_quotas(owner, from_kind, last)
  if from_kind == 'day' then
    if not scan_all(owner, 'day', 'runs', scan_hash,
      keys.action_counters(tag, owner, time.ms_text(math.floor(now / action_counters.DAY_MS))), last,
      count_counters) then
      return false
    end
    from_kind, last = 'runs', ''
  end
  return from_kind ~= 'runs' or scan_all(owner, 'runs', '', scan_set, keys.run_index(tag, owner), last, function(flat)
    for i = 1, #flat, 2 do
      count_run(owner, flat[i])
    end
  end)
end

-- Counts what stands in an index after a member. Returns false when the run ends there.
local function count_all(owner, this_kind, index, last, count_one, walk)
  local members = left > 0 and listing.members_or_index(walk or listing.members_after_name, index, last, left) or {}
  if members[1] == index then
    name_damaged(RECORDS[this_kind], index)
  else
    for _, member in ipairs(members) do
      count_one(member)
    end
  end
  left = left - #members
  if left > 0 then
    return true
  end
  next_tenant, next_kind, next_after = owner, this_kind, members[#members] or last
  return false
end

local function count_webhooks(owner, last)
  return count_all(owner, 'webhooks', keys.webhook_index(tag, owner), last, count_webhook)
end

-- Counts what a tenant owns, from where the run before ended. Returns false when the run ends there.
local function count_owned(id, from_kind, last)
  if from_kind == 'budgets' then
    if not count_all(id, 'budgets', keys.budget_index(tag, id), last, count_budget) then
      return false
    end
    from_kind, last = 'webhooks', ''
  end
  if from_kind == 'webhooks' then
    if not count_webhooks(id, last) then
      return false
    end
    -- Without policies there are no quotas.
    from_kind, last = redis.pcall('HEXISTS', keys.tenant(tag, id), 'policies') == 1 and 'policies' or '', ''
  end
  if from_kind == 'policies' then
    if not count_all(id, 'policies', keys.policy_index(tag, id), last, count_policy, listing.members_after) then
      return false
    end
    from_kind, last = 'day', ''
  end
  return count_quotas(id, from_kind, last)
end

local function count_from_tenant()
  if tenant ~= '' and not count_owned(tenant, kind, after) then
    return false
  end
  local ids = listing.members_or_index(listing.members_after, tenant_index, tenant, limit)
  if ids[1] == tenant_index then
    name_damaged('tenant', tenant_index)
    return true
  end
  for _, id in ipairs(ids) do
    count_tenant(id)
    left = left - 1
    if not count_owned(id, 'budgets', '') then
      return false
    end
  end
  return true
end

if tenant == SYSTEM then
  count_webhooks(SYSTEM, after)
elseif count_from_tenant() and with_system then
  count_webhooks(SYSTEM, '')
end

table.sort(quotas, function(one, other)
  return one.part > other.part
end)

local reply = { time.ms_text(now), next_tenant, next_kind, next_after, time.ms_text(limit - left), '' }
local names = 0
for name, number in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = name, time.ms_text(number)
  names = names + 1
end
reply[6] = time.ms_text(2 * names)
for owner, of_tenant in pairs(sums) do
  for unit, sum in pairs(of_tenant) do
    append_sum(owner, unit, sum)
  end
end
reply[#reply + 1] = time.ms_text(#sum_rows / 6)
lists.append_all(reply, sum_rows)
reply[#reply + 1] = time.ms_text(#budgets / 7)
lists.append_all(reply, budgets)
reply[#reply + 1] = time.ms_text(#webhooks / 4)
lists.append_all(reply, webhooks)
reply[#reply + 1] = time.ms_text(#damaged / 2)
lists.append_all(reply, damaged)
for i = 1, math.min(#quotas, QUOTAS_LISTED) do
  lists.append_all(reply, quotas[i])
end
return reply
