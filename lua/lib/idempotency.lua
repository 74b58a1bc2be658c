-- idempotency: the record that makes a repeated request return its first outcome.
--
-- A record is one string: the payload's fingerprint, a space, and the reply's parts joined by spaces. No part has a space: they are
-- ids, figures and status words that this service makes. The fingerprint may be followed by a colon and the stamp of lua/lib/attest.lua,
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

-- remember keeps the reply for at least `ttl_ms`.
local function remember(key, fingerprint, parts, ttl_ms)
  redis.call('SET', key, fingerprint .. ' ' .. table.concat(parts, ' '), 'PX', ttl_ms)
end
