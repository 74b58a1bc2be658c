-- record: the two forms of a reservation's record: a field for each value, and packed.
-- @include now_ms
--
-- Ended records stay for weeks and there are millions of them, so some time after the end a record is packed: its values in a
-- fixed order, split by a separator, without the field names, with ids and times told by their differences. They stand in
-- fields '0', '1', ... of at most 64 bytes, since a longer value makes Redis store the hash as a table of three times the size.
-- The state and whatever else there is (metadata and other JSON) stay fields of their own. A field that somebody sets in a
-- packed record afterwards is the one that counts. lua/lib/hold.lua names the fields.
local SEPARATOR, PIECE = '\31', 64
local UNIT_LETTERS = { USD_MICROCENTS = 'u', TOKENS = 't', CREDITS = 'c', RISK_POINTS = 'r' }
local POLICY_LETTERS = { REJECT = 'r', ALLOW_IF_AVAILABLE = 'a', ALLOW_WITH_OVERDRAFT = 'o' }

local function inverse(letters)
  local words = {}
  for word, letter in pairs(letters) do
    words[letter] = word
  end
  return words
end
local UNIT_WORDS, POLICY_WORDS = inverse(UNIT_LETTERS), inverse(POLICY_LETTERS)

-- packed-scope.ts in src/reservations knows that the tenant and the levels come first. The idempotency key comes last, as it
-- alone may hold any byte.
local FORM = '^' .. string.rep('([^\31]*)\31', 23) .. '(.*)$'

local function to_hex(text, base)
  return text and string.format('%x', (tonumber(text) or base) - base) or ''
end

local function from_hex(text, base)
  return text ~= '' and ms_text(tonumber(text, 16) + base) or nil
end

-- A key id without what its own partition tells; the maker's own id and 'system' as one character.
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

local function long_id(text, prefix, maker)
  if text == '' then
    return nil
  elseif text == '=' then
    return maker
  elseif text == '*' then
    return 'system'
  end
  return string.sub(text, 1, 1) == '~' and prefix .. string.sub(text, 2) or text
end

-- Most clients send a UUID, 36 characters for 16 bytes.
local UUID = '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)(%x%x%x%x%x%x%x%x)$'

local function short_key(text)
  local a, b, c, d, e, f = string.match(text or '', UUID)
  if not a then
    return text or ''
  end
  return '~' .. struct.pack('>I4I4I4I4', tonumber(a, 16), tonumber(b .. c, 16), tonumber(d .. e, 16), tonumber(f, 16))
end

local function long_key(text)
  if #text ~= 17 or string.sub(text, 1, 1) ~= '~' then
    return text ~= '' and text or nil
  end
  local hex = string.format('%08x%08x%08x%08x', struct.unpack('>I4I4I4I4', text, 2))
  return string.sub(hex, 1, 8) .. '-' .. string.sub(hex, 9, 12) .. '-' .. string.sub(hex, 13, 16) .. '-'
    .. string.sub(hex, 17, 20) .. '-' .. string.sub(hex, 21)
end

local function short_extensions(fields, prefix, born)
  local parts = {}
  for i = 1, tonumber(fields.xc) or 0 do
    local at, granted, by = string.match(fields['x' .. i] or '', '^(%d+)%+(%d+)%+?(.*)$')
    parts[i] = to_hex(at or nil, born) .. '+' .. to_hex(granted or nil, 0) .. '+' .. short_id(by ~= '' and by or nil, prefix, fields.ki)
  end
  return table.concat(parts, ',')
end

local function long_extensions(fields, text, prefix, born)
  local count = 0
  for at, granted, by in string.gmatch(text, '(%x+)%+(%x+)%+([^,]*)') do
    count = count + 1
    fields['x' .. count] = from_hex(at, born) .. '+' .. from_hex(granted, 0) .. (by == '' and '' or '+' .. long_id(by, prefix, fields.ki))
  end
  if count > 0 then
    fields.xc = ms_text(count)
  end
end

local function unpack_fields(text, code)
  local tn, ws, ap, wf, ag, ts, terms, am, ch, ca, ex, fa, gr, mx, mt, ki, eb, ak, an, xs, ev, tv, rr, ik = string.match(text, FORM)
  if not tn then
    error('a packed record has not the form of one')
  end
  local function own(value)
    return value ~= '' and value or nil
  end
  local prefix, born = 'key_' .. code, tonumber(ca, 16)
  local maker = long_id(ki, prefix)
  local fields = {
    tn = tn, ws = own(ws), ap = own(ap), wf = own(wf), ag = own(ag), ts = own(ts),
    un = UNIT_WORDS[string.sub(terms, 1, 1)], op = POLICY_WORDS[string.sub(terms, 2, 2)], bm = string.sub(terms, 3),
    am = am, ch = ch == '=' and am or own(ch), ca = ms_text(born), ex = from_hex(ex, born), fa = from_hex(fa, born),
    gr = from_hex(gr, 0), mx = from_hex(mx, 0), mt = from_hex(mt, 0), ki = maker, eb = long_id(eb, prefix, maker),
    ak = own(ak), an = own(an), tv = own(tv), rr = own(rr), ik = long_key(ik),
  }
  local told, sequence = string.match(ev, '^(%x+)(%-%d+)$')
  fields.ev = told and from_hex(told, born) .. sequence
  long_extensions(fields, xs, prefix, born)
  return fields
end

-- The values of an ended record as one text, and the fields that they are read back as; nil when they would not be read back
-- exactly as they are: such a record keeps its first form.
local function pack_fields(fields, code)
  local born, told, sequence = tonumber(fields.ca), string.match(fields.ev or '', '^(%d+)(%-%d+)$')
  local unit, policy = UNIT_LETTERS[fields.un], POLICY_LETTERS[fields.op]
  if not born or not unit or not policy or not fields.tn or not fields.bm or not fields.am then
    return nil
  end
  local prefix = 'key_' .. code
  local text = table.concat({
    fields.tn, fields.ws or '', fields.ap or '', fields.wf or '', fields.ag or '', fields.ts or '', unit .. policy .. fields.bm,
    fields.am, fields.ch == fields.am and '=' or fields.ch or '', to_hex(fields.ca, 0), to_hex(fields.ex, born), to_hex(fields.fa, born),
    to_hex(fields.gr, 0), to_hex(fields.mx, 0), to_hex(fields.mt, 0), short_id(fields.ki, prefix), short_id(fields.eb, prefix, fields.ki),
    fields.ak or '', fields.an or '', short_extensions(fields, prefix, born), told and to_hex(told, born) .. sequence or '',
    fields.tv or '', fields.rr or '', short_key(fields.ik),
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

-- All fields of a record by name, in whichever form it is stored. Empty when there is none.
local function record_fields(key)
  local flat, fields = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
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
  for name, value in pairs(unpack_fields(table.concat(pieces), string.sub(key, 3, 4))) do
    fields[name] = fields[name] or value
  end
  return fields
end

-- Packs the record of an ended reservation; it stays as long as it would have. Returns whether it did.
local function pack_record(key)
  local fields = redis.call('HEXISTS', key, '0') == 0 and record_fields(key) or {}
  local ends_at = redis.call('PEXPIRETIME', key)
  if not fields.st or fields.st == 'ACTIVE' or ends_at < 0 then
    return false
  end
  local text, packed = pack_fields(fields, string.sub(key, 3, 4))
  if not text then
    return false
  end
  local command = { 'HSET', key, 'st', fields.st }
  for start = 1, #text, PIECE do
    command[#command + 1] = tostring((start - 1) / PIECE)
    command[#command + 1] = string.sub(text, start, start + PIECE - 1)
  end
  for name, value in pairs(fields) do
    if name ~= 'st' and not packed[name] then
      command[#command + 1] = name
      command[#command + 1] = value
    end
  end
  redis.call('DEL', key)
  redis.call(unpack(command))
  redis.call('PEXPIREAT', key, ms_text(ends_at))
  return true
end
