#!lua flags=allow-oom
-- reconcile: put live reservations that are missing from their index of deadlines back into it, a bounded run through the
-- partition's tenants and their reservations at a time. That is the TTL index, or under MANUAL_CLEANUP the cleanup index. Restored
-- backups and operators' edits leave such ones behind.
-- It carries allow-oom because nothing else gives back what they hold.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   tenant         where the run before ended, or empty to start with the first
-- ARGV[2]   walked_ms      created_at_ms of the entry that ended it, or empty
-- ARGV[3]   walked_id      and its reservation
-- ARGV[4]   examine        entries of one run; a step to the next tenant counts as one
-- ARGV[5]   trace          trace id and flags
-- RETURNS   RECONCILED now_ms tenant walked_ms walked_id examined (reservation_id found)*, tenant being empty at the end
-- BOUND     examine entries, each of which may be told of in the event log
-- EMITS     custom.reservation.reindexed
-- @include  keys, now_ms, hold, index_walk, append_event
--
-- found is MISSING for a reservation that was not in the index, MISPLACED for one that stood at another deadline than its
-- record's. One whose record has no sound deadline is put at the head, where expire.lua puts it into quarantine.
local tenant_index = KEYS[1]
local tenant, walked_ms, walked_id, examine, trace = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local tag = tag_of_key(tenant_index)
local now = now_ms()
local found, examined = {}, 0
require_event_log(tag)

-- A tenant is never removed; should its entry be gone all the same, the walk ends, and the next one starts over.
local function tenant_after(name)
  local rank = name == '' and -1 or redis.call('ZRANK', tenant_index, name)
  return rank and redis.call('ZRANGE', tenant_index, rank + 1, rank + 1)[1]
end

-- Ended reservations are passed over by their state alone, for they are the most by far.
local function place_of(reservation_id)
  local state = redis.pcall('HGET', reservation_key(tag, reservation_id), 'st')
  if state ~= 'ACTIVE' or redis.call('HEXISTS', quarantine_key(tag), reservation_id) == 1 then
    return nil
  end
  local hold = load_hold(reservation_key(tag, reservation_id))
  if hold.expires_at and hold.grace_ms then
    return hold, deadline_index_key(tag, hold), ms_text(reclaim_deadline(hold))
  end
  return hold, ttl_index_key(tag), '0'
end

local function examine_one(reservation_id)
  local hold, index, deadline = place_of(reservation_id)
  local score = hold and redis.call('ZSCORE', index, reservation_id)
  if not hold or score == deadline then
    return
  end
  local word = score and 'MISPLACED' or 'MISSING'
  redis.call('ZADD', index, deadline, reservation_id)
  append_event(tag, 'custom.reservation.reindexed', hold.tenant or '__system__', nil, { actor = 'system', trace = trace },
    { 'reservation_id', reservation_id, 'found', word, 'reclaim_deadline', deadline })
  found[#found + 1] = reservation_id
  found[#found + 1] = word
end

while tenant and examined < examine do
  local entries = tenant == '' and {} or index_stretch(reservation_index_key(tag, tenant), false, '-inf', '+inf', walked_ms, walked_id,
    examine - examined)
  if #entries == 0 then
    tenant, walked_ms, walked_id = tenant_after(tenant), '', ''
    examined = examined + 1
  else
    for i = 1, #entries, 2 do
      examine_one(entries[i])
    end
    walked_id, walked_ms = entries[#entries - 1], entries[#entries]
    examined = examined + #entries / 2
  end
end
return { 'RECONCILED', ms_text(now), tenant or '', walked_ms, walked_id, tostring(examined), unpack(found) }
