-- group: several calls of one script in one run, which share their reads and write the result once.
-- @include keys: tag_of_key, budget_key
-- @include now_ms: now_ms
-- @include int64: i64_figure
-- @include budget: budget_fields, parse_budget, copy_budget, is_balanced, require_balanced, balance_text
-- @include owned: read_owned, write_owned, count_ended
-- @include ended: note_ended
--
-- While a run of a script is in flight in a partition, the service queues further calls, and sends them together in the next run
-- (src/redis/grouped-calls.ts). A script with a GROUP line in its header is one call; `group` is what the calls of its run share.
-- Each call decides as if the calls before it had been separate runs. Its changes to budgets, indexes and counts stay in memory until
-- write_group. It writes its own keys itself: record, idempotency record and events.
--
-- A call that is refused or fails changes nothing: it works on copies of the budgets, and keep_budget copies them to the group after
-- the last check. A call that needs to find the other calls' changes in Redis, as an expiry does, calls leave_group first.

-- The prefix of a failed call's text, and the separator between the texts of a reply. No reply contains either.
local FAILED, SEPARATOR = '\30', '\31'

local function new_group()
  return { known = {}, changed = {}, owned = {}, indexes = {}, ended = {} }
end

-- The time, the same for all calls.
local function group_now(group)
  group.now = group.now or now_ms()
  return group.now
end

-- The result of `read` for a tenant's record: read_tenant or tenant_status.
local function group_tenant(group, read, key)
  local known = group.known[key]
  if not known then
    known = { read(key) }
    group.known[key] = known
  end
  return known[1], known[2], known[3]
end

-- Budgets that earlier runs have parsed, by key. Each run reads the fields again, but unchanged ones need not be parsed and checked
-- again. About a kilobyte each.
local BUDGETS_KEPT = 1000
local kept, kept_count = {}, 0

-- Whether the budget has these fields, after an update of the figures that reserves and settlements change.
local function bring_up_to_date(budget, f)
  if budget.allocated ~= f[4] or budget.debt ~= f[5] or budget.overdraft_limit ~= f[6] or budget.is_over_limit ~= (f[7] or '0')
    or budget.status ~= f[8] or budget.commit_overage_policy ~= (f[9] or nil) then
    return false
  end
  if budget.remaining == f[1] and budget.reserved == f[2] and budget.spent == f[3] then
    return true
  end
  if not (f[1] and f[2] and f[3] and string.find(table.concat(f, ',', 1, 3), '^%-?%d+,%d+,%d+$')) then
    return false
  end
  local remaining, reserved, spent = i64_figure(f[1]), i64_figure(f[2]), i64_figure(f[3])
  if type(remaining) ~= 'number' or type(reserved) ~= 'number' or type(spent) ~= 'number'
    or not is_balanced(remaining, reserved, spent, budget.allocated_figure, budget.debt_figure) then
    return false
  end
  budget.remaining, budget.reserved, budget.spent = f[1], f[2], f[3]
  budget.remaining_figure, budget.reserved_figure, budget.spent_figure = remaining, reserved, spent
  return true
end

local function shared_budget(key, scope)
  local f = budget_fields(key)
  local shared = kept[key]
  if shared and bring_up_to_date(shared, f) then
    return shared
  end
  shared = parse_budget(key, scope, f)
  if shared then
    require_balanced({ shared })
    if not kept[key] then
      if kept_count == BUDGETS_KEPT then
        kept, kept_count = {}, 0
      end
      kept_count = kept_count + 1
    end
    kept[key] = shared
  end
  return shared
end

-- The budget at a scope as the calls before this one left it, or nil. It is a copy that the caller may change.
local function group_budget(group, tag, unit, scope)
  local key = budget_key(tag, unit, scope)
  local shared = group.known[key]
  if shared == nil then
    shared = shared_budget(key, scope) or false
    group.known[key] = shared
  end
  if not shared then
    return nil
  end
  local budget = copy_budget(shared)
  budget.shared = shared
  return budget
end

-- A sum of two numbers is a number even if it is too long for a figure.
local function short_figure(figure, text)
  return #text <= 15 and type(figure) == 'number' and figure or i64_figure(text)
end

-- Copies the figures to the group's budget, and returns them as balance_text does. Cannot fail.
local function keep_budget(group, budget)
  local shared = budget.shared
  local change = group.changed[shared]
  if not change then
    change = {}
    group.changed[shared] = change
  end
  shared.remaining, shared.reserved = budget.remaining, budget.reserved
  shared.remaining_figure, shared.reserved_figure = short_figure(budget.remaining_figure, budget.remaining), short_figure(budget.reserved_figure, budget.reserved)
  if budget.spent ~= shared.spent then
    shared.spent, shared.spent_figure, change.is_charged = budget.spent, short_figure(budget.spent_figure, budget.spent), true
  end
  if budget.debt ~= shared.debt or budget.is_over_limit ~= shared.is_over_limit then
    shared.debt, shared.debt_figure, shared.is_over_limit = budget.debt, budget.debt_figure, budget.is_over_limit
    change.is_indebted = true
  end
  return balance_text(shared)
end

-- Makes the first change of a sorted set at once, so that the call ends here if the set is damaged. The others wait for write_group.
local function add_to_index(group, key, score, member)
  local change = group.indexes[key]
  if not change then
    redis.call('ZADD', key, score, member)
    group.indexes[key] = { 'ZADD', key }
    return
  end
  local size = #change
  change[size + 1], change[size + 2] = score, member
end

local function remove_from_index(group, key, member)
  local change = group.indexes[key]
  if not change then
    redis.call('ZREM', key, member)
    group.indexes[key] = { 'ZREM', key }
    return
  end
  change[#change + 1] = member
end

-- What the tenant owns. The limits passed in are the deployment's.
local function group_owned(group, tag, tenant_id, max_live, max_stored)
  local owned = group.owned[tenant_id]
  if not owned then
    owned = read_owned(tag, tenant_id, max_live, max_stored)
    group.owned[tenant_id] = owned
  end
  return owned
end

-- Records that a reservation has ended, and by how many bytes of text its record grew.
local function end_in_group(group, tenant_id, reservation_id, text)
  local ended = group.ended[tenant_id]
  if not ended then
    ended = { text = 0, ids = {} }
    group.ended[tenant_id] = ended
  end
  ended.text, ended.ids[#ended.ids + 1] = ended.text + text, reservation_id
end

local function write_budget(budget, change)
  if change.is_indebted then
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved, 'spent', budget.spent,
      'debt', budget.debt, 'is_over_limit', budget.is_over_limit)
  elseif change.is_charged then
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved, 'spent', budget.spent)
  else
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
  end
end

-- Writes what the calls have changed. The calls have checked everything that could fail here.
local function write_group(group, tag)
  for _, change in pairs(group.indexes) do
    if #change > 2 then
      redis.call(unpack(change))
    end
  end
  for budget, change in pairs(group.changed) do
    write_budget(budget, change)
  end
  for tenant_id, owned in pairs(group.owned) do
    if owned.made > 0 then
      write_owned(tag, tenant_id, owned)
    end
  end
  for tenant_id, ended in pairs(group.ended) do
    count_ended(tag, tenant_id, #ended.ids, ended.text)
    note_ended(tag, unpack(ended.ids))
  end
end

-- Called before a call does extra work and changes what other calls share: the run ends with this call, and the service sends the
-- other calls again.
local function leave_group(group, tag)
  write_group(group, tag)
  group.known, group.changed, group.owned, group.indexes, group.ended = {}, {}, {}, {}, {}
  group.is_left = true
end

local function text_of_call(call, keys, args, group)
  return table.concat(call(keys, args, group), SEPARATOR)
end

local function made_call(call, keys, args, group)
  local done, reply = pcall(text_of_call, call, keys, args, group)
  return done and reply or FAILED .. (type(reply) == 'table' and reply.err or 'ERR ' .. reply)
end

-- `keys` has the keys of all calls, one after the other. `args` has their arguments in the same way, then the number of arguments of
-- each call, then the number of calls. Returns a text for each call that was made, in order: the texts of its reply, or FAILED and
-- its error.
local function run_calls(call, keys, args)
  local size = #args
  local calls, tag = tonumber(args[size]), tag_of_key(keys[1])
  local group, replies = new_group(), {}
  if calls == 1 then
    args[size], args[size - 1] = nil, nil
    replies[1] = made_call(call, keys, args, group)
  else
    local keys_of_each, first = #keys / calls, 1
    for i = 1, calls do
      local last = first + tonumber(args[size - 1 - calls + i]) - 1
      replies[i] = made_call(call, { unpack(keys, (i - 1) * keys_of_each + 1, i * keys_of_each) }, { unpack(args, first, last) }, group)
      first = last + 1
      if group.is_left then
        break
      end
    end
  end
  write_group(group, tag)
  return replies
end
