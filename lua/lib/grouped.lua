-- grouped: several calls of one script in one run, which share their reads and write the result once.
-- @include brief_figures, budget_figures, ended_holds, int64, kept_counters, keys, owned_counts, rollover,
--          time, waking, window_record, window_turn
--
-- The service sends calls of a partition that come at once, or that have waited for runs in flight, together in one run
-- (src/redis/grouped-calls.ts). A script with a GROUP line in its header is one call; `group` is what the calls of its run share.
-- Each call decides as if the calls before it had been separate runs. Its changes to budgets, indexes and counts stay in memory until
-- write_group. It writes its own keys itself: record, idempotency record and events.
--
-- A call that is refused or fails changes nothing: it changes copies of the budgets, or none, and keep_budget or keep_plain_move
-- changes the group's after the last check. A call that needs to find the other calls' changes in Redis, as an expiry does, calls leave_group first.

-- The prefix of a failed call's text, and the separator between the texts of a reply. No reply contains either.
local FAILED, SEPARATOR = '\30', '\31'

local function new_group()
  return { known = {}, changed = {}, owned = {}, indexes = {}, ended = {} }
end

-- The time, the same for all calls.
local function group_now(group)
  group.now = group.now or time.now_ms()
  return group.now
end

local function group_now_text(group)
  group.now_text = group.now_text or time.ms_text(group_now(group))
  return group.now_text
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

-- Sets what follows from the figures that few calls change: `tail`, the end of balance_text; whether `head` is its short form; and
-- whether the budget is plain, as lua/ledger/lib/plain_move.lua needs it: it has neither debt nor windows, all figures are numbers, and nothing
-- is over a limit.
local function note_rare_figures(budget)
  budget.tail = ',' .. budget.allocated .. ',' .. budget.debt .. ',' .. budget.overdraft_limit .. ',' .. budget.is_over_limit
  budget.is_brief = brief_figures.is_brief(budget.allocated, budget.debt, budget.overdraft_limit, budget.is_over_limit)
  budget.is_plain = budget.debt_figure == 0 and not budget.windows and budget.is_over_limit == '0' and type(budget.allocated_figure) == 'number'
    and budget.allocated_figure > 0 and type(budget.remaining_figure) == 'number' and budget.remaining_figure >= 0
    and type(budget.reserved_figure) == 'number' and type(budget.spent_figure) == 'number'
end

-- Whether the budget has these fields, after an update of the figures that reserves and settlements change.
local function bring_up_to_date(budget, f)
  budget.waiting = f[10]
  if budget.allocated ~= f[4] or budget.debt ~= f[5] or budget.overdraft_limit ~= f[6] or budget.is_over_limit ~= (f[7] or '0')
    or budget.status ~= f[8] or budget.commit_overage_policy ~= (f[9] or nil) or budget.period_end ~= (f[11] or nil)
    or budget.windows_text ~= (f[12] or nil) or not (f[1] and f[2] and f[3]) then
    return false
  end
  local head = f[1] .. ',' .. f[2] .. ',' .. f[3]
  if budget.head == head then
    return true
  end
  if not string.find(head, '^%-?%d+,%d+,%d+$') then
    return false
  end
  local remaining, reserved, spent = int64.figure(f[1]), int64.figure(f[2]), int64.figure(f[3])
  if not budget.is_plain or type(remaining) ~= 'number' or type(reserved) ~= 'number' or type(spent) ~= 'number'
    or remaining < 0 or not budget_figures.is_balanced(remaining, reserved, spent, budget.allocated_figure, budget.debt_figure) then
    return false
  end
  budget.head, budget.remaining_figure, budget.reserved_figure, budget.spent_figure = head, remaining, reserved, spent
  return true
end

local function shared_budget(group, tag, unit, key, scope)
  local f = budget_figures.budget_fields(key)
  -- The first call of the run that reads a budget rolls it over and turns its windows, so no call has changed it in memory yet.
  local now = (f[11] or f[12]) and group_now(group)
  if f[11] and rollover.roll_over_if_due(tag, key, unit, scope, f[11], f[8], now) then
    f = budget_figures.budget_fields(key)
  end
  if f[12] and window_turn.turn_windows_if_due(tag, key, f[12], f[8], now) then
    f = budget_figures.budget_fields(key)
  end
  local shared = kept[key]
  if shared and bring_up_to_date(shared, f) then
    return shared
  end
  shared = budget_figures.parse_budget(key, scope, f)
  if shared then
    budget_figures.require_balanced({ shared })
    -- The figures that most calls change have no texts here: `head` has the three together.
    shared.head = shared.remaining .. ',' .. shared.reserved .. ',' .. shared.spent
    shared.remaining, shared.reserved, shared.spent = nil, nil, nil
    shared.windows = shared.windows_text and window_record.parse_windows(key, shared.windows_text)
    note_rare_figures(shared)
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

-- The budget at a scope as the calls before this one left it, or nil. All calls share it: a call changes copies_of it, or moves its
-- figures with keep_plain_move after the last check.
local function group_budget(group, tag, unit, scope)
  local key = keys.budget(tag, unit, scope)
  local shared = group.known[key]
  if shared == nil then
    shared = shared_budget(group, tag, unit, key, scope) or false
    group.known[key] = shared
  end
  return shared or nil
end

local function copies_of(budgets)
  local copies = {}
  for i = 1, #budgets do
    copies[i] = budget_figures.copy_budget(budgets[i])
  end
  return copies
end

-- Moves the figures of a shared budget, after moves_plainly has checked it. Returns them as balance_text does, and as an idempotency record
-- stores them. Cannot fail.
local function keep_plain_move(group, budget, by_remaining, by_reserved, by_spent)
  local remaining, reserved, spent = budget.remaining_figure + by_remaining, budget.reserved_figure + by_reserved, budget.spent_figure + by_spent
  local head = string.format('%d,%d,%d', remaining, reserved, spent)
  budget.remaining_figure, budget.reserved_figure, budget.spent_figure, budget.head = remaining, reserved, spent, head
  if by_spent ~= 0 then
    group.changed[budget] = group.changed[budget] == 'debt' and 'debt' or 'spent'
  else
    group.changed[budget] = group.changed[budget] or 'reserved'
  end
  local text = head .. budget.tail
  return text, brief_figures.stored_balance(budget, text)
end

-- A sum of two numbers is a number even if it is too long for a figure.
local function short_figure(figure, text)
  return #text <= 15 and type(figure) == 'number' and figure or int64.figure(text)
end

-- Copies the figures of a changed copy to the group's budget. Returns what keep_plain_move does. Cannot fail.
local function keep_budget(group, budget)
  local shared = budget.shared
  shared.remaining_figure, shared.reserved_figure = short_figure(budget.remaining_figure, budget.remaining), short_figure(budget.reserved_figure, budget.reserved)
  shared.spent_figure = short_figure(budget.spent_figure, budget.spent)
  shared.head = budget.remaining .. ',' .. budget.reserved .. ',' .. budget.spent
  if budget.debt ~= shared.debt or budget.is_over_limit ~= shared.is_over_limit then
    shared.debt, shared.debt_figure, shared.is_over_limit = budget.debt, budget.debt_figure, budget.is_over_limit
    group.changed[shared] = 'debt'
  else
    group.changed[shared] = group.changed[shared] == 'debt' and 'debt' or 'spent'
  end
  if budget.windows ~= shared.windows then
    shared.windows, shared.windows_text = budget.windows, window_record.windows_text(budget.windows)
    group.charged_windows = group.charged_windows or {}
    group.charged_windows[shared] = true
  end
  note_rare_figures(shared)
  local text = shared.head .. shared.tail
  return text, brief_figures.stored_balance(shared, text)
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
    owned = owned_counts.read_owned(tag, tenant_id, max_live, max_stored)
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

-- `change` is 'reserved', 'spent' or 'debt': the rarest figure that the calls have changed.
local function write_budget(budget, change, has_charged_windows)
  -- Splitting the text costs half of formatting the figures again.
  local remaining, reserved, spent = string.match(budget.head, '^(%-?%d+),(%-?%d+),(%-?%d+)$')
  if change == 'reserved' then
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved)
  elseif change == 'debt' then
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved, 'spent', spent, 'debt', budget.debt,
      'is_over_limit', budget.is_over_limit)
  else
    redis.call('HSET', budget.key, 'remaining', remaining, 'reserved', reserved, 'spent', spent)
  end
  if has_charged_windows then
    redis.call('HSET', budget.key, 'windows', budget.windows_text)
  end
  if budget.waiting then
    waking.wake_waiters(budget.key)
  end
end

-- Writes what the calls have changed. The calls have checked everything that could fail here.
local function write_group(group, tag)
  local charged_windows = group.charged_windows
  for _, change in pairs(group.indexes) do
    if #change > 2 then
      redis.call(unpack(change))
    end
  end
  for budget, change in pairs(group.changed) do
    write_budget(budget, change, charged_windows and charged_windows[budget])
  end
  for tenant_id, owned in pairs(group.owned) do
    if owned.made > 0 then
      owned_counts.write_owned(tag, tenant_id, owned)
    end
  end
  for tenant_id, ended in pairs(group.ended) do
    owned_counts.count_ended(tag, tenant_id, #ended.ids, ended.text)
    ended_holds.note_ended(tag, unpack(ended.ids))
  end
  if group.counted then
    kept_counters.write_counters(group, tag)
  end
end

-- Called before a call does extra work and changes what other calls share: the run ends with this call, and the service sends the
-- other calls again.
local function leave_group(group, tag)
  write_group(group, tag)
  group.known, group.changed, group.owned, group.indexes, group.ended = {}, {}, {}, {}, {}
  group.charged_windows = nil
  group.is_left = true
end

local function text_of_call(call, key_list, args, group)
  return table.concat(call(key_list, args, group), SEPARATOR)
end

local function made_call(call, key_list, args, group)
  local done, reply = pcall(text_of_call, call, key_list, args, group)
  return done and reply or FAILED .. (type(reply) == 'table' and reply.err or 'ERR ' .. reply)
end

-- `keys` has the keys of all calls, one after the other. `args` has their arguments in the same way, then the number of arguments of
-- each call, then the number of calls. Returns a text for each call that was made, in order: the texts of its reply, or FAILED and
-- its error.
local function run_calls(call, key_list, args)
  local size = #args
  local calls, tag = tonumber(args[size]), keys.tag_of(key_list[1])
  local group, replies = new_group(), {}
  if calls == 1 then
    args[size], args[size - 1] = nil, nil
    replies[1] = made_call(call, key_list, args, group)
  else
    local keys_of_each, first = #key_list / calls, 1
    for i = 1, calls do
      local last = first + tonumber(args[size - 1 - calls + i]) - 1
      replies[i] = made_call(call, { unpack(key_list, (i - 1) * keys_of_each + 1, i * keys_of_each) }, { unpack(args, first, last) }, group)
      first = last + 1
      if group.is_left then
        break
      end
    end
  end
  write_group(group, tag)
  return replies
end

return {
  add_to_index = add_to_index, copies_of = copies_of, end_in_group = end_in_group, budget = group_budget,
  now = group_now, now_text = group_now_text, owned = group_owned, tenant = group_tenant, keep_budget = keep_budget,
  keep_plain_move = keep_plain_move, leave = leave_group, new = new_group, remove_from_index = remove_from_index,
  run_calls = run_calls,
}
