-- pack_record: packs the record of an ended reservation. lua/lib/record.lua describes the packed form and reads it.
-- @include fields: FIELD
-- @include now_ms: ms_text
-- @include record: POLICY_LETTERS, unpack_fields, record_fields, text_length
local SEPARATOR, PIECE = '\31', 64
local UNIT_LETTERS = { USD_MICROCENTS = 'u', TOKENS = 't', CREDITS = 'c', RISK_POINTS = 'r' }

-- A number minus `base`. Negative if an expiry was moved to before the creation.
local function to_hex(text, base)
  local number = text and (tonumber(text) or base) - base
  return number and (number < 0 and '-' or '') .. string.format('%x', math.abs(number)) or ''
end

-- A key id without what its partition implies. The creator's own id and 'system' take one character.
local function short_id(id, prefix, maker)
  if not id then
    return ''
  elseif id == maker then
    return '='
  elseif id == 'system' then
    return '*'
  end
  return string.sub(id, 1, 6) == prefix and '~' .. string.sub(id, 7) or id
end

-- Most clients send a UUID: 36 characters for 16 bytes.
local UUID = '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)(%x%x%x%x%x%x%x%x)$'

local function short_key(text)
  local a, b, c, d, e, f = string.match(text or '', UUID)
  if not a then
    return text or ''
  end
  return '~' .. struct.pack('>I4I4I4I4', tonumber(a, 16), tonumber(b .. c, 16), tonumber(d .. e, 16), tonumber(f, 16))
end

-- A damaged count must not cause an endless loop.
local function short_extensions(fields, prefix, born)
  local parts, used, maker = {}, fields[FIELD.extensions_used] or '', fields[FIELD.key_id]
  for i = 1, string.find(used, '^%d%d?%d?$') and tonumber(used) or 0 do
    local at, granted, by = string.match(fields[FIELD.extension .. i] or '', '^(%d+)%+(%d+)%+?(.*)$')
    parts[i] = to_hex(at or nil, born) .. '+' .. to_hex(granted or nil, 0) .. '+' .. short_id(by ~= '' and by or nil, prefix, maker)
  end
  return table.concat(parts, ',')
end

-- The values of an ended record as one text, and the fields that this text unpacks to. Nil if they would differ from the record's,
-- which then stays unpacked.
local function pack_fields(fields, code)
  local born, event_ms, sequence = tonumber(fields[FIELD.created_at]), string.match(fields[FIELD.end_event] or '', '^(%d+)(%-%d+)$')
  local unit, policy = UNIT_LETTERS[fields[FIELD.unit]], fields[FIELD.overage_policy]
  policy = policy == nil and '-' or POLICY_LETTERS[policy]
  local amount, charged, maker = fields[FIELD.amount], fields[FIELD.charged], fields[FIELD.key_id]
  if not born or not unit or not policy or not fields[FIELD.tenant] or not fields[FIELD.scope_mask] or not amount then
    return nil
  end
  local prefix = 'key_' .. code
  local text = table.concat({
    fields[FIELD.tenant],
    fields[FIELD.workspace] or '', fields[FIELD.app] or '', fields[FIELD.workflow] or '', fields[FIELD.agent] or '', fields[FIELD.toolset] or '',
    unit .. policy .. fields[FIELD.scope_mask],
    amount, charged == amount and '=' or charged or '',
    to_hex(fields[FIELD.created_at], 0), to_hex(fields[FIELD.expires_at], born), to_hex(fields[FIELD.ended_at], born),
    to_hex(fields[FIELD.grace_ms], 0), to_hex(fields[FIELD.max_extensions], 0), to_hex(fields[FIELD.max_ttl_ms], 0),
    short_id(maker, prefix), short_id(fields[FIELD.ended_by], prefix, maker),
    fields[FIELD.action_kind] or '', fields[FIELD.action_name] or '', short_extensions(fields, prefix, born),
    event_ms and to_hex(event_ms, born) .. sequence or '',
    fields[FIELD.given_tenant] or '', fields[FIELD.release_reason] or '', short_key(fields[FIELD.idempotency_key]),
  }, SEPARATOR)
  local readable, packed = pcall(unpack_fields, text, code)
  if not readable then
    return nil
  end
  for name, value in pairs(packed) do
    if fields[name] ~= value then
      return nil
    end
  end
  return text, packed
end

-- A record with longer free texts stays unpacked: packing would save little, and rewrite all of it.
local LONGEST_TEXT = 4096

-- Packs the record of an ended reservation and keeps its expiry. Returns whether it did.
local function pack_record(key)
  local fields = redis.call('HEXISTS', key, '0') == 0 and text_length(key) <= LONGEST_TEXT and record_fields(key) or {}
  local ends_at = redis.call('PEXPIRETIME', key)
  if not fields[FIELD.state] or fields[FIELD.state] == 'ACTIVE' or ends_at < 0 then
    return false
  end
  local text, packed = pack_fields(fields, string.sub(key, 3, 4))
  if not text then
    return false
  end
  local command = { 'HSET', key, FIELD.state, fields[FIELD.state] }
  for start = 1, #text, PIECE do
    command[#command + 1] = tostring((start - 1) / PIECE)
    command[#command + 1] = string.sub(text, start, start + PIECE - 1)
  end
  for name, value in pairs(fields) do
    if name ~= FIELD.state and not packed[name] then
      command[#command + 1] = name
      command[#command + 1] = value
    end
  end
  redis.call('DEL', key)
  redis.call(unpack(command))
  redis.call('PEXPIREAT', key, ms_text(ends_at))
  return true
end
