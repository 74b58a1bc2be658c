-- pack_record: packs the record of an ended reservation. lua/lib/hold_form.lua describes the packed form and reads it.
-- @include field, hold_form, time, units
local SEPARATOR, PIECE = '\31', 64

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
  local parts, used, maker = {}, fields[field.extensions_used] or '', fields[field.key_id]
  for i = 1, string.find(used, '^%d%d?%d?$') and tonumber(used) or 0 do
    local at, granted, by = string.match(fields[field.extension .. i] or '', '^(%d+)%+(%d+)%+?(.*)$')
    parts[i] = to_hex(at or nil, born) .. '+' .. to_hex(granted or nil, 0) .. '+'
      .. short_id(by ~= '' and by or nil, prefix, maker)
  end
  return table.concat(parts, ',')
end

-- The values of an ended record as one text, and the fields that this text unpacks to. Nil if they would differ from
-- the record's, which then stays unpacked.
local function pack_fields(fields, code)
  local born, event_ms, sequence = tonumber(fields[field.created_at]),
    string.match(fields[field.end_event] or '', '^(%d+)(%-%d+)$')
  local unit, policy = units.LETTER_OF[fields[field.unit]], fields[field.overage_policy]
  policy = policy == nil and '-' or hold_form.POLICY_LETTERS[policy]
  local amount, charged, maker = fields[field.amount], fields[field.charged], fields[field.key_id]
  if not born or not unit or not policy or not fields[field.tenant] or not fields[field.scope_mask] or not amount then
    return nil
  end
  local prefix = 'key_' .. code
  local text = table.concat({
    fields[field.tenant],
    fields[field.workspace] or '', fields[field.app] or '', fields[field.workflow] or '',
    fields[field.agent] or '', fields[field.toolset] or '',
    unit .. policy .. fields[field.scope_mask],
    amount, charged == amount and '=' or charged or '',
    to_hex(fields[field.created_at], 0), to_hex(fields[field.expires_at], born), to_hex(fields[field.ended_at], born),
    to_hex(fields[field.grace_ms], 0), to_hex(fields[field.max_extensions], 0), to_hex(fields[field.max_ttl_ms], 0),
    short_id(maker, prefix), short_id(fields[field.ended_by], prefix, maker),
    fields[field.action_kind] or '', fields[field.action_name] or '', short_extensions(fields, prefix, born),
    event_ms and to_hex(event_ms, born) .. sequence or '',
    fields[field.given_tenant] or '', fields[field.release_reason] or '', short_key(fields[field.idempotency_key]),
  }, SEPARATOR)
  local readable, packed = pcall(hold_form.unpack_fields, text, code)
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
  local fields = redis.call('HEXISTS', key, '0') == 0 and hold_form.text_length(key) <= LONGEST_TEXT
    and hold_form.record_fields(key) or {}
  local ends_at = redis.call('PEXPIRETIME', key)
  if not fields[field.state] or fields[field.state] == 'ACTIVE' or ends_at < 0 then
    return false
  end
  local text, packed = pack_fields(fields, string.sub(key, 3, 4))
  if not text then
    return false
  end
  local command = { 'HSET', key, field.state, fields[field.state] }
  for start = 1, #text, PIECE do
    command[#command + 1] = tostring((start - 1) / PIECE)
    command[#command + 1] = string.sub(text, start, start + PIECE - 1)
  end
  for name, value in pairs(fields) do
    if name ~= field.state and not packed[name] then
      command[#command + 1] = name
      command[#command + 1] = value
    end
  end
  redis.call('DEL', key)
  redis.call(unpack(command))
  redis.call('PEXPIREAT', key, time.ms_text(ends_at))
  return true
end

return pack_record
