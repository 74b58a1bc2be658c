-- hold_form: the forms of a reservation's record, live and packed. A live one has its subject in one field, and what
-- else never changes and no expiry needs in another. What would be too long for that is in a field for each value.
-- @include field, time, units
--
-- Millions of ended records stay for weeks, so a record is packed after its end (lua/audit/lib/pack_record.lua): its
-- values in a fixed order with separators, without field names, and with ids and times as differences. They are in
-- fields '0', '1', ... of at most 64 bytes, because a longer value makes Redis store the hash as a table of three times
-- the size. The state and everything else (metadata and other JSON) stay separate fields. A field that is set in a
-- packed record later takes precedence.
--
-- Live records are never packed, so the tables that only packed records need are created where they are used.

local POLICIES_BY_LETTER = { r = 'REJECT', a = 'ALLOW_IF_AVAILABLE', o = 'ALLOW_WITH_OVERDRAFT' }
local POLICY_LETTERS = { REJECT = 'r', ALLOW_IF_AVAILABLE = 'a', ALLOW_WITH_OVERDRAFT = 'o' }

-- The values of a packed text by field name. `code` is the partition as it appears in ids.
local function unpack_fields(text, code)
  local function from_hex(digits, base)
    if digits == '' then
      return nil
    elseif string.sub(digits, 1, 1) == '-' then
      return time.ms_text(base - tonumber(string.sub(digits, 2), 16))
    end
    return time.ms_text(tonumber(digits, 16) + base)
  end
  -- '=' is the creator of the reservation, '*' is system, '~' stands for the prefix of all keys of the partition.
  local function long_id(short, maker)
    local first = string.sub(short, 1, 1)
    if first == '=' then
      return maker
    end
    return first == '*' and 'system' or first == '~' and 'key_' .. code .. string.sub(short, 2)
      or short ~= '' and short or nil
  end
  local function long_key(short)
    if #short ~= 17 or string.sub(short, 1, 1) ~= '~' then
      return short ~= '' and short or nil
    end
    local hex = string.format('%08x%08x%08x%08x', struct.unpack('>I4I4I4I4', short, 2))
    return string.gsub(hex, '^(........)(....)(....)(....)', '%1-%2-%3-%4-')
  end
  local function own(value)
    return value ~= '' and value or nil
  end

  -- The idempotency key comes last, because only it may contain any byte.
  local tenant, workspace, app, workflow, agent, toolset, terms, amount, charged, created_at, expires_at, ended_at,
    grace_ms, max_extensions, max_ttl_ms, key_id, ended_by, action_kind, action_name, extensions, end_event,
    given_tenant, release_reason, idempotency_key =
    string.match(text, '^' .. string.rep('([^\31]*)\31', 23) .. '(.*)$')
  if not tenant then
    error('a packed record has not the form of one')
  end
  local born, maker = tonumber(created_at, 16), long_id(key_id)
  local fields = {
    [field.tenant] = tenant,
    [field.workspace] = own(workspace),
    [field.app] = own(app),
    [field.workflow] = own(workflow),
    [field.agent] = own(agent),
    [field.toolset] = own(toolset),
    [field.unit] = units.BY_LETTER[string.sub(terms, 1, 1)],
    [field.overage_policy] = POLICIES_BY_LETTER[string.sub(terms, 2, 2)],
    [field.scope_mask] = string.sub(terms, 3),
    [field.amount] = amount,
    [field.charged] = charged == '=' and amount or own(charged),
    [field.created_at] = time.ms_text(born),
    [field.expires_at] = from_hex(expires_at, born),
    [field.ended_at] = from_hex(ended_at, born),
    [field.grace_ms] = from_hex(grace_ms, 0),
    [field.max_extensions] = from_hex(max_extensions, 0),
    [field.max_ttl_ms] = from_hex(max_ttl_ms, 0),
    [field.key_id] = maker,
    [field.ended_by] = long_id(ended_by, maker),
    [field.action_kind] = own(action_kind),
    [field.action_name] = own(action_name),
    [field.given_tenant] = own(given_tenant),
    [field.release_reason] = own(release_reason),
    [field.idempotency_key] = long_key(idempotency_key),
  }
  local event_ms, sequence = string.match(end_event, '^(%-?%x+)(%-%d+)$')
  fields[field.end_event] = event_ms and from_hex(event_ms, born) .. sequence
  local count = 0
  for at, granted, by in string.gmatch(extensions, '(%-?%x+)%+(%x+)%+([^,]*)') do
    count = count + 1
    fields[field.extension .. count] =
      from_hex(at, born) .. '+' .. from_hex(granted, 0) .. (by == '' and '' or '+' .. long_id(by, maker))
  end
  fields[field.extensions_used] = count > 0 and time.ms_text(count) or nil
  return fields
end

-- The values in a live record's subject, in order. None contains the separator. list_holds.lua and forecast_funds.lua
-- rely on the tenant coming first.
local SUBJECT_FIELDS =
  { field.tenant, field.workspace, field.app, field.workflow, field.agent, field.toolset, field.unit, field.scope_mask }

-- These values from the text of a subject, nil for each that is empty; all nil if the text is malformed.
local function split_subject(text)
  local tenant, workspace, app, workflow, agent, toolset, unit, mask =
    string.match(text, '^' .. string.rep('([^\31]*)\31', 7) .. '([^\31]*)$')
  local function own(value)
    return value ~= '' and value or nil
  end
  return own(tenant), own(workspace), own(app), own(workflow), own(agent), own(toolset), own(unit), own(mask)
end

-- The overage policy, the most extensions, the API key, and the action's kind and name from a live record's constants,
-- all nil if the text is malformed. Only the name may contain the separator.
local function split_constants(text)
  local letter, max_extensions, key_id, kind, name = string.match(text, '^(%a)(%d+)\31([^\31]*)\31([^\31]*)\31(.*)$')
  if not POLICIES_BY_LETTER[letter] then
    return nil
  end
  return POLICIES_BY_LETTER[letter], max_extensions, key_id, kind, name
end

local CONSTANT_FIELDS =
  { field.overage_policy, field.max_extensions, field.key_id, field.action_kind, field.action_name }

local BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
-- By byte. Filled at first use: a library has no string functions while it is loaded.
local BITS_OF = {}

-- The UUID of 22 characters in base64url, or nil if it is none. Two characters have 12 bits, which are 3 hex digits.
local function uuid_text(short)
  if #short ~= 22 then
    return nil
  end
  if not next(BITS_OF) then
    for i = 1, #BASE64URL do
      BITS_OF[string.byte(BASE64URL, i)] = i - 1
    end
  end
  local bytes = { string.byte(short, 1, 22) }
  local pairs_of_six = {}
  for i = 1, 22, 2 do
    local one, other = BITS_OF[bytes[i]], BITS_OF[bytes[i + 1]]
    if not one or not other then
      return nil
    end
    pairs_of_six[#pairs_of_six + 1] = one * 64 + other
  end
  local hex = string.format('%03x%03x%03x%03x%03x%03x%03x%03x%03x%03x%03x', unpack(pairs_of_six))
  return table.concat({
    string.sub(hex, 1, 8), string.sub(hex, 9, 12), string.sub(hex, 13, 16), string.sub(hex, 17, 20),
      string.sub(hex, 21, 32),
  }, '-')
end

local function subject_text(fields)
  local values = {}
  for i = 1, #SUBJECT_FIELDS do
    values[i] = fields[SUBJECT_FIELDS[i]] or ''
  end
  return table.concat(values, '\31')
end

-- Replaces the subject and the constants of a live record, and the packed values of an ended one, with separate fields.
local function spell_out(fields, key)
  local subject = { split_subject(fields[field.subject] or '') }
  if subject[1] then
    for i = 1, #SUBJECT_FIELDS do
      fields[SUBJECT_FIELDS[i]] = subject[i]
    end
    fields[field.subject] = nil
  end
  local constants = { split_constants(fields[field.constants] or '') }
  if constants[1] then
    for i = 1, #CONSTANT_FIELDS do
      fields[CONSTANT_FIELDS[i]] = constants[i]
    end
    fields[field.constants] = nil
  end
  local uuid = fields[field.idempotency_uuid] and uuid_text(fields[field.idempotency_uuid])
  if uuid then
    fields[field.idempotency_key], fields[field.idempotency_uuid] = fields[field.idempotency_key] or uuid, nil
  end
  if not fields['0'] then
    return fields
  end
  local pieces = {}
  while fields[tostring(#pieces)] do
    local name = tostring(#pieces)
    pieces[#pieces + 1] = fields[name]
    fields[name] = nil
  end
  -- If the values cannot be unpacked, the record lacks these fields.
  local readable, values = pcall(unpack_fields, table.concat(pieces), string.sub(key, 3, 4))
  for name, value in pairs(readable and values or {}) do
    fields[name] = fields[name] or value
  end
  return fields
end

-- All fields of a record by name, in whichever form it is stored. Empty if it does not exist. A record may have a
-- megabyte of metadata: use short_fields to read many.
local function record_fields(key)
  local flat, fields = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return spell_out(fields, key)
end

-- The length of those free texts of a record that may be large.
local function text_length(key)
  local length = 0
  for i = 1, #field.LONG do
    length = length + redis.call('HSTRLEN', key, field.LONG[i])
  end
  return length
end

-- A record with longer free texts is read without them and without its extensions: a few kilobytes at most.
local SHORT_TEXT = 1024
-- More pieces than the longest packed record has.
local PIECES = 64

local function short_fields(key)
  if text_length(key) <= SHORT_TEXT then
    return record_fields(key)
  end
  local names = { unpack(field.SHORT) }
  if redis.call('HEXISTS', key, '0') == 1 then
    for piece = 0, PIECES - 1 do
      names[#names + 1] = tostring(piece)
    end
  end
  local values, fields = redis.call('HMGET', key, unpack(names)), {}
  for i = 1, #names do
    fields[names[i]] = values[i] or nil
  end
  return spell_out(fields, key)
end

return {
  POLICIES_BY_LETTER = POLICIES_BY_LETTER, POLICY_LETTERS = POLICY_LETTERS, SUBJECT_FIELDS = SUBJECT_FIELDS,
  record_fields = record_fields, short_fields = short_fields, split_constants = split_constants,
  split_subject = split_subject, subject_text = subject_text, text_length = text_length,
  unpack_fields = unpack_fields, uuid_text = uuid_text,
}
