-- owned_counts: how much a tenant owns, and the limits on it.
-- @include kept, keys, time
--
-- One hash per tenant, apart from its record: `live` reservations, how often lua/expiry/reconcile.lua has corrected
-- that (`recounts`), bytes of free `text` in its reservations, `stored` bytes as last added up, and its own limits
-- 'max:<limit>'. If a limit is unset, the deployment's applies; 0 means no limit. A damaged hash counts as empty:
-- nothing is refused because of it, and lua/expiry/reconcile.lua counts again.

-- A count, or 0 if the text is not one. At most 15 digits, so that it is exact.
local function owned_count(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or 0
end

-- The count of live reservations. If it was never complete, as after an upgrade, it falls below 0 until the reconciler
-- has counted again. It must not stop at 0: the reconciler adds what was missing when its walk began, and needs all
-- ends since then.
local function live_count(text)
  local negative, digits = string.match(text or '', '^(%-?)(%d+)$')
  return negative == '-' and -owned_count(digits) or owned_count(digits)
end

-- All tenants share a few limits.
local LIMITS_KEPT = 100
local limit_of = kept(LIMITS_KEPT, function(text) return owned_count(tostring(text)) end)

-- The limit in force: the tenant's own, else the deployment's.
local function limit_in_force(own, deployment_limit)
  return limit_of(own or deployment_limit)
end

-- The refusal if a tenant already owns so many resources of a kind that `wanted` more, by default one, are not allowed,
-- or nil. `index` is a sorted set with a member for each but the `pending` ones.
local function count_refusal(tag, tenant_id, limit, deployment_limit, index, wanted, pending)
  local own = redis.pcall('HGET', keys.owned(tag, tenant_id), 'max:' .. limit)
  local allowed = limit_in_force(type(own) == 'string' and own, deployment_limit)
  if allowed == 0 then
    return nil
  end
  local used = redis.call('ZCARD', index) + (pending or 0)
  return used + (wanted or 1) > allowed and { 'LIMIT_EXCEEDED', limit, time.ms_text(allowed), time.ms_text(used) }
    or nil
end

-- The bytes that a reservation takes over the 30 days that it is kept (its record, its entries in indexes and tables,
-- and for a day its idempotency records), and those of an event with its entry in the tenant's index.
-- docs/administration.md has the measurements.
local RESERVATION_BYTES, EVENT_BYTES = 600, 300
-- Shorter values are part of RESERVATION_BYTES.
local LONG_VALUE = 64

-- The size of a sorted set or stream. A damaged one counts as empty.
local function size_of(command, key)
  return tonumber(redis.pcall(command, key)) or 0
end

-- The bytes of a tenant's envelopes, which are in other partitions and expire by themselves: one hash of sums, each
-- named by the time from which all its envelopes are gone.
local EVIDENCE_SUMS = 30

local function evidence_bytes(tag, tenant_id)
  local sums, now, bytes = redis.pcall('HGETALL', keys.evidence_bytes(tag, tenant_id)), time.now_ms(), 0
  for i = 1, #sums, 2 do
    if owned_count(sums[i]) > now then
      bytes = bytes + owned_count(sums[i + 1])
    end
  end
  return bytes
end

-- An estimate of the bytes stored for a tenant. `text` is the bytes of free text in its reservations.
local function stored_bytes(tag, tenant_id, text)
  return size_of('ZCARD', keys.reservation_index(tag, tenant_id)) * RESERVATION_BYTES
    + size_of('XLEN', keys.tenant_events(tag, tenant_id)) * EVENT_BYTES + evidence_bytes(tag, tenant_id) + text
end

-- The bytes of the long values in a list, from index `first` on.
local function long_text(values, first)
  local bytes = 0
  for i = first, #values do
    if #values[i] > LONG_VALUE then
      bytes = bytes + #values[i]
    end
  end
  return bytes
end

-- What a reserve needs to know to decide: `max_live` and `max_stored` are the limits in force, `made` counts the
-- reservations that this run has made.
local function read_owned(tag, tenant_id, max_live, max_stored)
  local f = redis.pcall('HMGET', keys.owned(tag, tenant_id), 'live', 'text', 'stored', 'max:live_reservations',
    'max:stored_bytes')
  local text = owned_count(f[2])
  return { live = live_count(f[1]), text = text, written_text = text, stored = owned_count(f[3]), made = 0,
    max_live = limit_in_force(f[4], max_live), max_stored = limit_in_force(f[5], max_stored) }
end

-- The refusal of a reserve with `text` bytes of long values, or nil, and the bytes stored including it. They are added
-- up again before a refusal, because the kept sum only grows.
local function reserve_refusal(tag, tenant_id, owned, text)
  local allowed = owned.max_live
  if allowed > 0 and owned.live >= allowed then
    return { 'LIMIT_EXCEEDED', 'live_reservations', time.ms_text(allowed), time.ms_text(owned.live) }
  end
  allowed = owned.max_stored
  local stored = owned.stored + RESERVATION_BYTES + EVENT_BYTES + text
  if allowed == 0 or stored <= allowed then
    return nil, stored
  end
  -- Of the reservations that this run has made, only the first is in the index yet, and in a rehearsal none.
  local pending = owned.rehearses and owned.made + 1 or math.max(1, owned.made)
  stored = stored_bytes(tag, tenant_id, owned.text + text) + pending * RESERVATION_BYTES
  return stored > allowed and { 'LIMIT_EXCEEDED', 'stored_bytes', time.ms_text(allowed), time.ms_text(stored) }
    or nil, stored
end

-- The refusal of an envelope of this many bytes, or nil. As with a reserve, the bytes are added up again before a
-- refusal.
local function evidence_refusal(tag, tenant_id, max_stored, bytes)
  local owned = read_owned(tag, tenant_id, 0, max_stored)
  local allowed = owned.max_stored
  if allowed == 0 or owned.stored + bytes <= allowed then
    return nil
  end
  local stored = stored_bytes(tag, tenant_id, owned.text + bytes)
  return stored > allowed and { 'LIMIT_EXCEEDED', 'stored_bytes', time.ms_text(allowed), time.ms_text(stored) } or nil
end

-- Counts an envelope. The first one of a sum removes the sums whose envelopes are gone, which bounds their number.
local function count_evidence(tag, tenant_id, bytes, retention_ms, now)
  local key, width = keys.evidence_bytes(tag, tenant_id), math.ceil(retention_ms / EVIDENCE_SUMS)
  local gone_at = time.ms_text((math.floor(now / width) + 1) * width + retention_ms)
  local sum = redis.pcall('HINCRBY', key, gone_at, bytes)
  if sum == bytes then
    for _, instant in ipairs(redis.call('HKEYS', key)) do
      if owned_count(instant) <= now then
        redis.call('HDEL', key, instant)
      end
    end
    redis.call('PEXPIRE', key, time.ms_text(retention_ms + width))
  end
  redis.pcall('HINCRBY', keys.owned(tag, tenant_id), 'stored', bytes)
end

-- Counts a new reservation, in memory.
local function count_live(owned, text, stored)
  owned.live, owned.text, owned.stored, owned.made = owned.live + 1, owned.text + text, stored, owned.made + 1
end

-- Neither this function nor the next may end a script in the middle of its change.
local function write_owned(tag, tenant_id, owned)
  local key, live, stored = keys.owned(tag, tenant_id), time.ms_text(owned.live), time.ms_text(owned.stored)
  if owned.text == owned.written_text then
    redis.pcall('HSET', key, 'live', live, 'stored', stored)
  else
    redis.pcall('HSET', key, 'live', live, 'stored', stored, 'text', time.ms_text(owned.text))
  end
end

-- Counts `count` reservations that are no longer ACTIVE, and the bytes of text that their ends added.
local function count_ended(tag, tenant_id, count, text)
  redis.pcall('HINCRBY', keys.owned(tag, tenant_id), 'live', -count)
  if text and text > 0 then
    redis.pcall('HINCRBY', keys.owned(tag, tenant_id), 'text', text)
  end
end

-- Subtracts the texts of reservations whose records are gone. Their sizes are unknown, so the average is subtracted for
-- each: `gone` of `among` reservations.
local function forget_texts(tag, tenant_id, gone, among)
  local text = redis.pcall('HGET', keys.owned(tag, tenant_id), 'text')
  text = owned_count(type(text) == 'string' and text)
  if text > 0 then
    redis.call('HSET', keys.owned(tag, tenant_id), 'text',
      time.ms_text(math.floor(text * math.max(0, among - gone) / among)))
  end
end

return {
  count_ended = count_ended, count_evidence = count_evidence, count_live = count_live,
  count_refusal = count_refusal, evidence_refusal = evidence_refusal, forget_texts = forget_texts,
  limit_in_force = limit_in_force, live_count = live_count, long_text = long_text, owned_count = owned_count,
  read_owned = read_owned, reserve_refusal = reserve_refusal, size_of = size_of, stored_bytes = stored_bytes,
  write_owned = write_owned,
}
