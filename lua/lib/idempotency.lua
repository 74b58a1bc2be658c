-- idempotency: the record that makes a repeated request return its first outcome.
-- @include now_ms: ms_text
-- @include keys: tag_of_key, clock_lapses_key
--
-- A record is one string: the payload's fingerprint, a space, and what the reply is made from, joined by spaces. No part has a space: they
-- are ids, figures and status words that this service makes. The fingerprint may be followed by a colon and the stamp of lua/lib/attest.lua,
-- which is not part of the payload.
local function same_payload(one, other)
  return string.match(one, '^[^:]*') == string.match(other, '^[^:]*')
end

-- recall returns nil if the key is new, 'MISMATCH' if the payload differs, else the list of the reply's parts.
local function recall(key, fingerprint)
  local record = redis.call('GET', key)
  if not record then
    return nil
  end
  local parts = {}
  for part in string.gmatch(record, '%S+') do
    parts[#parts + 1] = part
  end
  if #parts < 2 then
    error('corrupt idempotency record ' .. key)
  end
  if parts[1] ~= fingerprint and not same_payload(parts[1], fingerprint) then
    return 'MISMATCH'
  end
  table.remove(parts, 1)
  return parts
end

-- How much longer a record that lapses by a test clock is kept, whose time may not pass meanwhile.
local KEPT_ON_CLOCK_MS = 30 * 86400000
-- How many entries of the index of such records are checked with each new one. Two, so that entries go faster than they come.
local LAPSES_CHECKED = 2

-- How long Redis keeps a record that lapses after `ttl_ms` by the tenant's time.
local function kept_ms(ttl_ms, clock_ms)
  return clock_ms and ms_text(ttl_ms + KEPT_ON_CLOCK_MS) or ttl_ms
end

-- Removes entries whose records Redis has removed, because the clock has not reached their instants for so long.
local function drop_stale_lapses(index)
  for _, key in ipairs(redis.call('ZRANDMEMBER', index, LAPSES_CHECKED)) do
    if redis.call('EXISTS', key) == 0 then
      redis.call('ZREM', index, key)
    end
  end
end

-- Enters a record of a tenant with a test clock into the index of those that lapse. The index goes with its last record.
local function note_lapse(key, ttl_ms, tenant_id, clock_ms)
  local index, kept = clock_lapses_key(tag_of_key(key), tenant_id), kept_ms(ttl_ms, clock_ms)
  drop_stale_lapses(index)
  redis.call('ZADD', index, ms_text(clock_ms + ttl_ms), key)
  redis.call('PEXPIRE', index, kept, 'NX')
  redis.call('PEXPIRE', index, kept, 'GT')
end

-- remember keeps the reply for at least `ttl_ms`. If the tenant has a test clock, whose instant is `clock_ms`, its time lets the record
-- lapse: lua/clocks/advance_tenant.lua removes what an index says has lapsed.
local function remember(key, fingerprint, parts, ttl_ms, tenant_id, clock_ms)
  redis.call('SET', key, fingerprint .. ' ' .. table.concat(parts, ' '), 'PX', kept_ms(ttl_ms, clock_ms))
  if clock_ms then
    -- A damaged index must not end the script in the middle of its change.
    pcall(note_lapse, key, ttl_ms, tenant_id, clock_ms)
  end
end

-- Keeps a record for at least `ttl_ms` from now on.
local function outlast(key, ttl_ms, tenant_id, clock_ms)
  if clock_ms then
    redis.pcall('ZADD', clock_lapses_key(tag_of_key(key), tenant_id), 'XX', 'GT', ms_text(clock_ms + ttl_ms), key)
  else
    redis.call('PEXPIRE', key, ms_text(ttl_ms), 'GT')
  end
end
