#!lua flags=no-writes
-- census: count a partition's tenants, budgets and webhook subscriptions, a bounded run at a time.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   tenant           where the run before ended, or empty
-- ARGV[2]   kind             what it counted of that tenant: budgets, webhooks or nothing more; empty at the start
-- ARGV[3]   after            the member that ended it, or empty
-- ARGV[4]   limit            records a run, at least 1
-- ARGV[5]   with_system      1 where the operators' own subscriptions stand in this partition
-- RETURNS   now_ms next_tenant? next_kind? next_after? examined:int text_count counts{}
--           budgets_count budgets(scope unit over:flag allocated remaining debt overdraft_limit)*
--           webhooks(subscription_id url failures:int failed_at_ms:text?)*
-- BOUND     limit records, a tenant counts as one, and of each a few short fields
-- EMITS     nothing
-- @include  keys: tag_of_key, tenant_key, budget_key, budget_index_key, webhook_key, webhook_index_key
-- @include  now_ms: now_ms, ms_text
-- @include  int64: i64_less, i64_positive
-- @include  listing: members_after, members_after_name
--
-- The following run starts at next_tenant. There is none at the end. The budgets that are listed are over their limit or have debt,
-- and are not closed; the subscriptions that are listed have failures in a row, and are not disabled. A damaged record counts as far
-- as it can be read.
local tenant_index = KEYS[1]
local tenant, kind, after, limit, with_system = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local SYSTEM = '__system__'
local FIGURE = '^%-?%d+$'

local tag = tag_of_key(tenant_index)
local left = limit
local counts, budgets, webhooks = {}, {}, {}
local next_tenant, next_kind, next_after = '', '', ''

local function count(name)
  counts[name] = (counts[name] or 0) + 1
end

local function count_tenant(id)
  count('tenants')
  count('tenants.' .. (redis.call('HGET', tenant_key(tag, id), 'status') or ''))
end

local function count_budget(member)
  local scope, unit = string.match(member, '^(%S+) (%S+)$')
  local key = budget_key(tag, unit, scope)
  local record = redis.call('HMGET', key, 'status', 'is_over_limit', 'debt', 'overdraft_limit', 'allocated', 'remaining')
  local status, debt, overdraft_limit = record[1] or '', record[3] or '', record[4] or ''
  count('budgets')
  count('budgets.' .. status)
  count('unit.' .. unit)
  for i = 3, 6 do
    if not string.find(record[i] or '', FIGURE) then
      return
    end
  end
  local over = record[2] == '1' or (i64_positive(overdraft_limit) and i64_less(overdraft_limit, debt))
  local indebted = i64_positive(debt)
  if status == 'CLOSED' or not (over or indebted) then
    return
  end
  if over then
    count('budgets.over_limit')
  end
  if indebted then
    count('budgets.with_debt')
  end
  for _, text in ipairs({ scope, unit, over and '1' or '0', record[5], record[6], debt, overdraft_limit }) do
    budgets[#budgets + 1] = text
  end
end

local function count_webhook(id)
  local key = webhook_key(tag, id)
  local record = redis.call('HMGET', key, 'st', 'cf', 'lf')
  local failures = tonumber(record[2] or '0') or 0
  count('webhooks')
  count('webhooks.' .. (record[1] or ''))
  if failures > 0 and record[1] ~= 'DISABLED' then
    count('webhooks.with_failures')
    for _, text in ipairs({ id, redis.call('HGET', key, 'ur') or '', record[2], record[3] or '' }) do
      webhooks[#webhooks + 1] = text
    end
  end
end

-- Counts what stands in an index after a member. Returns false when the run ends there.
local function count_all(owner, this_kind, index, last, count_one)
  local members = left > 0 and members_after_name(index, last, left) or {}
  for _, member in ipairs(members) do
    count_one(member)
  end
  left = left - #members
  if left > 0 then
    return true
  end
  next_tenant, next_kind, next_after = owner, this_kind, members[#members] or last
  return false
end

local function count_webhooks(owner, last)
  return count_all(owner, 'webhooks', webhook_index_key(tag, owner), last, count_webhook)
end

-- Counts what a tenant owns, from where the run before ended. Returns false when the run ends there.
local function count_owned(id, from_kind, last)
  if from_kind == 'budgets' then
    if not count_all(id, 'budgets', budget_index_key(tag, id), last, count_budget) then
      return false
    end
    from_kind, last = 'webhooks', ''
  end
  return from_kind ~= 'webhooks' or count_webhooks(id, last)
end

local function count_from_tenant()
  if tenant ~= '' and not count_owned(tenant, kind, after) then
    return false
  end
  for _, id in ipairs(members_after(tenant_index, tenant, limit)) do
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

local reply = { ms_text(now_ms()), next_tenant, next_kind, next_after, ms_text(limit - left), '' }
local names = 0
for name, number in pairs(counts) do
  reply[#reply + 1], reply[#reply + 2] = name, ms_text(number)
  names = names + 1
end
reply[6] = ms_text(2 * names)
reply[#reply + 1] = ms_text(#budgets / 7)
for _, list in ipairs({ budgets, webhooks }) do
  for i = 1, #list do
    reply[#reply + 1] = list[i]
  end
end
return reply
