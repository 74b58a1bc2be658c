#!lua flags=allow-oom
-- trim_reservation_index: remove entries of records that no longer exist from tenants' reservation indexes, and those
-- of runs whose counters have lapsed, some at a time.
-- allow-oom: it frees memory.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   tenant         where the previous run ended, or empty to start with the first
-- ARGV[2]   walked_ms      created_at_ms of the entry at which it ended, or empty
-- ARGV[3]   walked_id      its reservation
-- ARGV[4]   examine        entries per run; a step to the next tenant counts as one
-- ARGV[5]   retention_ms   how long ended records are kept
-- RETURNS   TRIMMED tenant? walked_ms:text? walked_id? examined:int removed:int damaged*
-- BOUND     examine entries, and at most 202 more of two runs
-- EMITS     nothing
-- @include  action_counters, index_walk, keys, owned_counts, time
--
-- tenant is empty at the end. `damaged` names tenants with a key that is no index; it stays as it is, and the walk goes
-- on.
-- Records are deleted in the order in which they ended, which is roughly the order of creation. So each index is read
-- from its oldest entry as far as entries are old enough to be deleted, and further only while some are: the retention
-- may have been longer once.
local tenant_index = KEYS[1]
local tenant, walked_ms, walked_id = ARGV[1], ARGV[2], ARGV[3]
local examine, retention_ms = tonumber(ARGV[4]), tonumber(ARGV[5])

local tag = keys.tag_of(tenant_index)
local now = time.now_ms()
local horizon = now - retention_ms
local examined, removed, steps, damaged = 0, 0, 0, {}

local function is_index(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'zset' and kind ~= 'none' then
    damaged[#damaged + 1] = tenant
  end
  return kind == 'zset'
end

local function trim_stretch(index)
  if not is_index(index) then
    return false
  end
  local entries = index_walk.index_stretch(index, false, '-inf', '+inf', walked_ms, walked_id, examine - steps)
  local gone = {}
  for i = 1, #entries, 2 do
    walked_id, walked_ms = entries[i], entries[i + 1]
    if redis.call('EXISTS', keys.reservation(tag, walked_id)) == 0 then
      gone[#gone + 1] = walked_id
    end
  end
  local count = #entries / 2
  local whole = count == examine - steps
  examined, removed, steps = examined + count, removed + #gone, steps + count
  if #gone > 0 then
    owned_counts.forget_texts(tag, tenant, #gone, redis.call('ZCARD', index))
    redis.call('ZREM', index, unpack(gone))
  end
  return whole and (#gone > 0 or tonumber(walked_ms) <= horizon)
end

-- A tenant that begins no further runs, such as a closed one, would keep the others forever.
local function trim_runs()
  if walked_id ~= '' or not is_index(keys.run_index(tag, tenant)) then
    return false
  end
  local count, gone = action_counters.forget_lapsed_runs(tag, tenant, now)
  examined, removed, steps = examined + count, removed + gone, steps + count
  return count > 0
end

-- Nothing is refused below this line.
tenant = tenant == '' and index_walk.member_after(tenant_index, '') or tenant
while tenant and tenant ~= '' and steps < examine do
  if not trim_runs() and not trim_stretch(keys.reservation_index(tag, tenant)) then
    tenant, walked_ms, walked_id = index_walk.member_after(tenant_index, tenant), '', ''
    steps = steps + 1
  end
end
return { 'TRIMMED', tenant or '', walked_ms, walked_id, tostring(examined), tostring(removed), unpack(damaged) }
