-- idempotency_record: the record that makes a repeated request return its first outcome.
-- @include time
--
-- A record is a string of MessagePack values: the payload's fingerprint, then the parts of which the reply is made. A
-- part is a text, a number, or the three figures of a balance that lua/lib/brief_figures.lua has shortened. The
-- fingerprint may be followed by a colon and the stamp of lua/lib/attest.lua, which is not part of the payload.
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

-- The parts of a record as texts, whatever its payload was. Empty if there is none, or if it is damaged.
local function parts_of(key)
  local record = redis.call('GET', key)
  local texts = record and recorded_texts(record) or {}
  table.remove(texts, 1)
  return texts
end

-- remember keeps the reply for at least `ttl_ms`.
local function remember(key, fingerprint, parts, ttl_ms)
  redis.call('SET', key, cmsgpack.pack(fingerprint, unpack(parts)), 'PX', ttl_ms)
end

-- Keeps a record for at least `ttl_ms` from now on.
local function outlast(key, ttl_ms)
  redis.call('PEXPIRE', key, time.ms_text(ttl_ms), 'GT')
end

-- Lets records lapse at one instant: that of the last. The clock that PEXPIRE reads goes on while a script runs.
local function lapse_together(keys)
  local last = 0
  for _, key in ipairs(keys) do
    last = math.max(last, redis.call('PEXPIRETIME', key))
  end
  for _, key in ipairs(keys) do
    redis.call('PEXPIREAT', key, time.ms_text(last), 'GT')
  end
end

return {
  lapse_together = lapse_together, outlast = outlast, parts_of = parts_of, recall = recall,
  recorded_texts = recorded_texts,
  remember = remember,
}
