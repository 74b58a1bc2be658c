-- group: several calls of one script in one run, which share what they read and write it once.
-- @include keys: tag_of_key, budget_key
-- @include now_ms: now_ms
-- @include int64: i64_figure
-- @include budget: budget_fields, parse_budget, copy_budget, is_balanced, require_balanced, balance_text
-- @include owned: read_owned, write_owned, count_ended
-- @include ended: note_ended
--
-- While a run of a script is under way in a partition, the service lets further calls wait, and sends them together in the next run
-- (src/redis/grouped-calls.ts). A script with a GROUP line in its header is one call; `group` is what the calls of its run share.
-- Each call decides as if the ones before it had been runs of their own. What it changes of budgets, indexes and counts stays in memory
-- until write_group; what is the call's own (record, idempotency record, events) it writes itself.
--
-- A call that is refused or fails leaves no trace: it changes copies of the budgets, and keep_budget makes these the group's after the
-- last check. A call that needs to see its neighbours' changes in Redis, as an expiry does, calls leave_group first.

-- What the text of a failed call begins with, and what stands between the texts of a reply. No reply holds either.
local FAILED, SEPARATOR = '\30', '\31'

local function new_group()
  return { known = {}, changed = {}, owned = {}, indexes = {}, ended = {} }
end

-- The instant of all calls.
local function group_now(group)
  group.now = group.now or now_ms()
  return group.now
end

-- What `read` says of a tenant's record: read_tenant or tenant_status.
local function group_tenant(group, read, key)
  local known = group.known[key]
  if not known then
    known = { read(key) }
    group.known[key] = known
  end
  return known[1], known[2]
end

-- Budgets that former runs have parsed, by their keys. Each run reads the fields anew, but what is still the same need not be parsed
-- and checked again. A kilobyte each.
local BUDGETS_KEPT = 1000
local kept, kept_count = {}, 0

-- Whether the budget is that of these fields. The figures that reserves and settlements change may have changed.
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

-- The budget at a scope as the calls before this one left it, or nil. The copy is the caller's to change.
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

-- A sum is a number, too, where it has become too long for one.
local function short_figure(figure, text)
  return #text <= 15 and type(figure) == 'number' and figure or i64_figure(text)
end

-- Makes the figures of the copy those of the group, and returns them as balance_text does. Cannot fail.
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

-- The first change of a sorted set is made at once, and so ends the call where the set is damaged; the others wait for write_group.
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

-- How much the tenant owns; the limits are the deployment's.
local function group_owned(group, tag, tenant_id, max_live, max_stored)
  local owned = group.owned[tenant_id]
  if not owned then
    owned = read_owned(tag, tenant_id, max_live, max_stored)
    group.owned[tenant_id] = owned
  end
  return owned
end

-- Notes that a reservation has ended, with so many bytes of text more in its record.
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

-- Writes what the calls have changed. Whatever could fail here was checked by the calls.
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

-- Called before a call does more than its share of the run's work, and changes what others share: the run ends with this call, and the
-- service sends the others again.
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

-- `keys` are those of all calls, one after the other, and so are `args`. Behind the latter stands how many each call has, and last how
-- many calls there are. Returns a text for each call that was made, in order: the texts of its reply, or its error behind FAILED.
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
