-- grouped: several calls of one script in one run, which share what they read and write the result once.
-- @include ended_holds, kept_counters, keys, owned_counts, shared_budgets
--
-- The service sends calls of a partition that come at once, or that have waited for runs in flight, together in one run
-- (src/redis/grouped-calls.ts). A script with a GROUP line in its header is one call; `group` is what the calls of its
-- run share:
--   `now`, `now_text`                              lua/lib/run_time.lua
--   `budgets`, `changed`, `charged_windows`        lua/lib/shared_budgets.lua
--   `turn`, `counted`                              lua/lib/kept_counters.lua
--   `policies`                                     lua/ledger/lib/policy_search.lua
--   `has_journal`                                  lua/lib/journal.lua
--   `tenants`, `indexes`, `owned`, `ended`         here
-- Each call decides as if the calls before it had been separate runs. Its changes to budgets, indexes and counts stay
-- in memory until `write`. It writes its own keys itself: record, idempotency record and events.
--
-- INVARIANT: a call that is refused or fails changes nothing. It works on copies, and hands its changes to the group
-- only after its last check. A call that needs to find the other calls' changes in Redis, as an expiry does, calls
-- `leave` first.

-- The prefix of a failed call's text, and the separator between the texts of a reply. No reply contains either.
local FAILED, SEPARATOR = '\30', '\31'

local function new_group()
  return { budgets = {}, changed = {}, charged_windows = {}, tenants = {}, indexes = {}, owned = {}, ended = {} }
end

-- The result of `read` for a tenant's record: read_tenant or tenant_status.
local function group_tenant(group, read, key)
  local known = group.tenants[key]
  if not known then
    known = { read(key) }
    group.tenants[key] = known
  end
  return known[1], known[2], known[3]
end

-- Makes the first change of a sorted set at once, so that the call ends here if the set is damaged. The others wait for
-- `write`.
local function add_to_index(group, key, score, member)
  local command = group.indexes[key]
  if not command then
    redis.call('ZADD', key, score, member)
    group.indexes[key] = { 'ZADD', key }
    return
  end
  local size = #command
  command[size + 1], command[size + 2] = score, member
end

local function remove_from_index(group, key, member)
  local command = group.indexes[key]
  if not command then
    redis.call('ZREM', key, member)
    group.indexes[key] = { 'ZREM', key }
    return
  end
  command[#command + 1] = member
end

-- What the tenant owns. The limits passed in are the deployment's.
local function group_owned(group, tag, tenant_id, max_live, max_stored)
  local owned = group.owned[tenant_id]
  if not owned then
    owned = owned_counts.read_owned(tag, tenant_id, max_live, max_stored)
    owned.rehearses = group.rehearses
    if group.set and not group.rehearses then
      -- The rehearsal has met the limits. The events of the members before must not count against those after them.
      owned.max_live, owned.max_stored = 0, 0
    end
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

local function write_indexes(group)
  for _, command in pairs(group.indexes) do
    -- The first change is made already.
    if #command > 2 then
      redis.call(unpack(command))
    end
  end
end

local function write_owned(group, tag)
  for tenant_id, owned in pairs(group.owned) do
    if owned.made > 0 then
      owned_counts.write_owned(tag, tenant_id, owned)
    end
  end
  for tenant_id, ended in pairs(group.ended) do
    owned_counts.count_ended(tag, tenant_id, #ended.ids, ended.text)
    ended_holds.leave_quarantine(tag, unpack(ended.ids))
  end
end

-- Writes what the calls have changed. The calls have checked everything that could fail here.
local function write(group, tag)
  write_indexes(group)
  shared_budgets.write(group)
  write_owned(group, tag)
  if group.counted then
    kept_counters.write_counters(group, tag)
  end
end

-- Called before a call does extra work and changes what other calls share: the run ends with this call, and the service
-- sends the other calls again. A rehearsal (lua/ledger/lib/all_or_none.lua) forgets what it has changed.
local function leave(group, tag)
  if not group.rehearses then
    write(group, tag)
  end
  for name, nothing in pairs(new_group()) do
    group[name] = nothing
  end
  group.is_left = true
end

local function text_of(reply)
  return table.concat(reply, SEPARATOR)
end

local function text_of_call(call, key_list, args, group)
  return text_of(call(key_list, args, group))
end

local function made_call(call, key_list, args, group)
  local done, reply = pcall(text_of_call, call, key_list, args, group)
  return done and reply or FAILED .. (type(reply) == 'table' and reply.err or 'ERR ' .. reply)
end

-- The keys and arguments of each call of a run. `key_list` has the keys of all calls, one after the other. `args` has
-- their arguments in the same way, then the number of arguments of each call, then the number of calls.
local function calls_in(key_list, args)
  local calls, size = {}, #args
  local count = tonumber(args[size])
  local keys_of_each, first = #key_list / count, 1
  for i = 1, count do
    local last = first + tonumber(args[size - 1 - count + i]) - 1
    calls[i] = { keys = { unpack(key_list, (i - 1) * keys_of_each + 1, i * keys_of_each) },
      args = { unpack(args, first, last) } }
    first = last + 1
  end
  return calls
end

-- Returns a text for each call that was made, in order: the texts of its reply, or FAILED and its error.
local function run_calls(call, key_list, args)
  local size, group = #args, new_group()
  local replies = {}
  if args[size] == '1' then
    -- A call that is alone needs no copies of its keys and arguments.
    args[size], args[size - 1] = nil, nil
    replies[1] = made_call(call, key_list, args, group)
  else
    for i, one in ipairs(calls_in(key_list, args)) do
      replies[i] = made_call(call, one.keys, one.args, group)
      if group.is_left then
        break
      end
    end
  end
  write(group, keys.tag_of(key_list[1]))
  return replies
end

return {
  add_to_index = add_to_index, calls_in = calls_in, end_in_group = end_in_group, leave = leave, new = new_group,
  owned = group_owned,
  remove_from_index = remove_from_index, run_calls = run_calls, tenant = group_tenant, text_of = text_of, write = write,
}
