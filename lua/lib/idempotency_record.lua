-- idempotency_record: the record that makes a repeated request return its first outcome.
-- @include keys, time
--
-- A record is a string of MessagePack values: the payload's fingerprint, then the parts of which the reply is made. A part is a text, a number,
-- or the three figures of a balance that lua/lib/brief_figures.lua has shortened. The fingerprint may be followed by a colon and the
-- stamp of lua/lib/attest.lua, which is not part of the payload.
local function same_payload(one, other)
  return string.match(one, '^[^:]*') == string.match(other, '^[^:]*')
end

local function part_text(part)
  if type(part) == 'table' then
    return string.format('%d,%d,%d', part[1], part[2], part[3])
  end
  return type(part) == 'number' and time.ms_text(part) or part
end

local function unpacked_texts(record)
  local texts = { cmsgpack.unpack(record) }
  for i = 1, #texts do
    texts[i] = part_text(texts[i])
  end
  return texts
end

-- The fingerprint and the parts of a record, all of them as texts. Empty if the record is damaged.
local function recorded_texts(record)
  local sound, texts = pcall(unpacked_texts, record)
  return sound and texts or {}
end

-- recall returns nil if the key is new, 'MISMATCH' if the payload differs, else the list of the reply's parts as texts.
local function recall(key, fingerprint)
  local record = redis.call('GET', key)
  if not record then
    return nil
  end
  local parts = recorded_texts(record)
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
  return clock_ms and time.ms_text(ttl_ms + KEPT_ON_CLOCK_MS) or ttl_ms
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
  local index, kept = keys.clock_lapses(keys.tag_of(key), tenant_id), kept_ms(ttl_ms, clock_ms)
  drop_stale_lapses(index)
  redis.call('ZADD', index, time.ms_text(clock_ms + ttl_ms), key)
  redis.call('PEXPIRE', index, kept, 'NX')
  redis.call('PEXPIRE', index, kept, 'GT')
end

-- remember keeps the reply for at least `ttl_ms`. If the tenant has a test clock, whose instant is `clock_ms`, its time lets the record
-- lapse: lua/clocks/advance_tenant.lua removes what an index says has lapsed.
local function remember(key, fingerprint, parts, ttl_ms, tenant_id, clock_ms)
  redis.call('SET', key, cmsgpack.pack(fingerprint, unpack(parts)), 'PX', kept_ms(ttl_ms, clock_ms))
  if clock_ms then
    -- A damaged index must not end the script in the middle of its change.
    pcall(note_lapse, key, ttl_ms, tenant_id, clock_ms)
  end
end

-- Keeps a record for at least `ttl_ms` from now on.
local function outlast(key, ttl_ms, tenant_id, clock_ms)
  if clock_ms then
    redis.pcall('ZADD', keys.clock_lapses(keys.tag_of(key), tenant_id), 'XX', 'GT', time.ms_text(clock_ms + ttl_ms), key)
  else
    redis.call('PEXPIRE', key, time.ms_text(ttl_ms), 'GT')
  end
end

return { kept_ms = kept_ms, outlast = outlast, recall = recall, recorded_texts = recorded_texts, remember = remember }
