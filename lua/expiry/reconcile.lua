#!lua flags=allow-oom
-- reconcile: restore missing index entries of live reservations, in bounded pages of the partition's tenants and their
-- reservations.
-- The index is the TTL index, or the cleanup index under MANUAL_CLEANUP. Restored backups and operators' edits leave
-- entries missing.
-- It carries allow-oom because nothing else returns what such reservations hold.
-- It also counts the live reservations of each tenant, and corrects the stored count.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   tenant         where the previous run ended, or empty to start with the first
-- ARGV[2]   walked_ms      created_at_ms of the entry at which it ended, or empty
-- ARGV[3]   walked_id      its reservation
-- ARGV[4]   tally          the counts of that tenant so far, or empty
-- ARGV[5]   examine        maximum entries to examine; a step to the next tenant counts as ten
-- ARGV[6]   retention_ms   how long an ended record is kept
-- ARGV[7]   trace          trace id and flags
-- ARGV[...] limit and value pairs: the deployment's limits on a tenant
-- RETURNS   RECONCILED now_ms tenant? walked_ms:text? walked_id? tally? examined:int recount_count recounts(tenant
--           counted:int
--             live:int)* near_count near(tenant limit used:int allowed:int)* found_count found(reservation_id
--             place:MISSING|MISPLACED)*
-- BOUND     examine entries, each of which may emit an event
-- EMITS     custom.reservation.reindexed
-- @include  damage, event_writer, field, hold_form, hold_record, index_walk, keys, lists, owned_counts, time
--
-- tenant is empty at the end.
-- In found, MISSING is a reservation that was not in the index, MISPLACED one whose entry had another deadline than its
-- record. A reservation without a valid deadline in its record is put first in the TTL index, where the sweeper
-- quarantines it.
local tenant_index = KEYS[1]
local tenant, walked_ms, walked_id, tally = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local examine, retention_ms, trace = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local first_limit = 8
-- A step to the next tenant reads a dozen figures.
local TENANT_STEP = 10
-- The share of a limit from which a tenant is reported.
local NEAR = 0.8

local tag = keys.tag_of(tenant_index)
local now = time.now_ms()
local found, examined = { count = 0 }, 0
event_writer.require_event_log(tag)

-- The stored count of live reservations is checked as of `since`, when the walk of the tenant began and `counted` was
-- read. A reservation was live then if it was created before and ended later or not at all. Creations and ends in that
-- very millisecond may have come before or after, so the true count is between `low` and `high`, and a stored count in
-- this range is not changed. A walk of one run is exact. Another instance may walk at the same time: `recounts` shows
-- whether it has already corrected the count.
local since, counted, recounts, low, high = string.match(tally, '^(%d+) (%-?%d+) (%d+) (%d+) (%d+)$')
since, counted, recounts, low, high = tonumber(since), tonumber(counted), tonumber(recounts), tonumber(low),
  tonumber(high)

local function begin_count()
  local f = redis.pcall('HMGET', keys.owned(tag, tenant), 'live', 'recounts')
  since, counted, recounts, low, high = nil, owned_counts.live_count(f[1]), owned_counts.owned_count(f[2]), 0, 0
end

-- Of a command's reading of the clock, which Redis 7.0 takes for each.
local SLACK_MS = 1000

-- When a packed record ended. Reads it only if that may be within the walk: the record is kept for at least the
-- retention.
local function packed_end(key)
  if now + redis.call('PTTL', key) - retention_ms < since - SLACK_MS then
    return nil
  end
  local readable, fields = pcall(hold_form.record_fields, key)
  return readable and fields[field.ended_at]
end

-- `since` is nil in the run in which the walk of the tenant began: what is live now was live then. An instant in the
-- future was written before the clock stepped back, so what it dates had happened before the walk. Only a walk during
-- which the clock comes to that instant takes it for one of its own time, and the next walk corrects what follows from
-- that.
local function count_one(key, born_ms, state, ended)
  born_ms = born_ms > now and 0 or born_ms
  if state == 'ACTIVE' then
    low = low + ((not since or born_ms < since) and 1 or 0)
    high = high + ((not since or born_ms <= since) and 1 or 0)
  elseif state and since and born_ms <= since then
    local ended_ms = tonumber(ended or packed_end(key) or '')
    if ended_ms and ended_ms >= since and ended_ms <= now then
      low = low + ((ended_ms > since and born_ms < since) and 1 or 0)
      high = high + 1
    end
  end
end

local recounted, near = { count = 0 }, { count = 0 }
local function put(list, ...)
  list.count = list.count + 1
  for i = 1, select('#', ...) do
    list[#list + 1] = select(i, ...)
  end
end

local function end_count(owned)
  local live = owned_counts.live_count(owned.live)
  local missing = counted < low and low - counted or counted > high and high - counted or 0
  -- If the clock has stepped back during the walk, what happened since cannot be told from what had happened before.
  local is_dated = not since or since <= now
  if missing == 0 or not is_dated or owned_counts.owned_count(owned.recounts) ~= recounts then
    return math.max(0, live)
  end
  local really = math.max(0, live + missing)
  put(recounted, tenant, time.ms_text(live), time.ms_text(really))
  redis.call('HSET', keys.owned(tag, tenant), 'live', time.ms_text(really), 'recounts', time.ms_text(recounts + 1))
  return really
end

-- Compares what the tenant owns of each kind with its limits.
local function end_tenant()
  local key, owned, names = keys.owned(tag, tenant), {}, { 'live', 'recounts', 'text', 'stored' }
  for i = first_limit, #ARGV, 2 do
    names[#names + 1] = 'max:' .. ARGV[i]
  end
  local values = redis.pcall('HMGET', key, unpack(names))
  if values.err then
    redis.call('DEL', key)
  end
  for i, name in ipairs(names) do
    owned[name] = values[i] or nil
  end
  local stored = owned_counts.stored_bytes(tag, tenant, owned_counts.owned_count(owned.text))
  -- The stored sum misses some events, and is unset after an upgrade.
  if owned_counts.owned_count(owned.stored) < 0.9 * stored then
    redis.call('HSET', key, 'stored', time.ms_text(stored))
  end
  local used = { live_reservations = end_count(owned), stored_bytes = stored,
    budgets = owned_counts.size_of('ZCARD', keys.budget_index(tag, tenant)),
    policies = owned_counts.size_of('ZCARD', keys.policy_index(tag, tenant)),
    api_keys = owned_counts.size_of('ZCARD', keys.api_key_index(tag, tenant)),
    webhooks = owned_counts.size_of('ZCARD', keys.webhook_index(tag, tenant)) }
  for i = first_limit, #ARGV, 2 do
    local limit = ARGV[i]
    local allowed = owned_counts.limit_in_force(owned['max:' .. limit], ARGV[i + 1])
    if allowed > 0 and used[limit] >= NEAR * allowed then
      put(near, tenant, limit, time.ms_text(used[limit]), time.ms_text(allowed))
    end
  end
end

-- Ended reservations, by far the most, are skipped by their state alone.
local function place_of(reservation_id, born_ms)
  local key = keys.reservation(tag, reservation_id)
  local f = redis.pcall('HMGET', key, field.state, field.ended_at)
  local state = f[1]
  if not f.err and not hold_record.HOLD_STATES[state] and redis.call('EXISTS', key) == 1 then
    state = damage.known_state(key, state)
  end
  count_one(key, born_ms, state, f[2])
  if state ~= 'ACTIVE' or redis.call('HEXISTS', keys.quarantine(tag), reservation_id) == 1 then
    return nil
  end
  local hold = hold_record.load_hold(key)
  if hold.expires_at and hold.grace_ms then
    return hold, hold_record.deadline_index_key(tag, hold), time.ms_text(hold_record.reclaim_deadline(hold))
  end
  return hold, keys.ttl_index(tag), '0'
end

local function examine_one(reservation_id, born_ms)
  local hold, index, deadline = place_of(reservation_id, born_ms)
  local score = hold and redis.call('ZSCORE', index, reservation_id)
  if not hold or score == deadline then
    return
  end
  local word = score and 'MISPLACED' or 'MISSING'
  redis.call('ZADD', index, deadline, reservation_id)
  event_writer.append_event(tag, 'custom.reservation.reindexed', hold.tenant or '__system__', nil,
    { actor = 'system', trace = trace },
    { 'reservation_id', reservation_id, 'found', word, 'reclaim_deadline', deadline })
  put(found, reservation_id, word)
end

while tenant and examined < examine do
  local entries = tenant == '' and {}
    or index_walk.index_stretch(keys.reservation_index(tag, tenant), false, '-inf', '+inf', walked_ms, walked_id,
    examine - examined)
  if #entries == 0 then
    if tenant ~= '' then
      end_tenant()
    end
    tenant, walked_ms, walked_id = index_walk.member_after(tenant_index, tenant), '', ''
    if tenant then
      begin_count()
    end
    examined = examined + TENANT_STEP
  else
    for i = 1, #entries, 2 do
      examine_one(entries[i], tonumber(entries[i + 1]))
    end
    walked_id, walked_ms = entries[#entries - 1], entries[#entries]
    examined = examined + #entries / 2
  end
end
if tenant then
  tally = table.concat({ time.ms_text(since or now), time.ms_text(counted), time.ms_text(recounts), time.ms_text(low),
    time.ms_text(high) }, ' ')
end
local reply = { 'RECONCILED', time.ms_text(now), tenant or '', walked_ms, walked_id, tenant and tally or '',
  tostring(examined) }
for _, list in ipairs({ recounted, near, found }) do
  reply[#reply + 1] = tostring(list.count)
  lists.append_all(reply, list)
end
return reply
