-- record: the forms of a reservation's record: live, with its subject in one field or, where that would be long, a field for each value;
-- and packed.
-- @include now_ms
--
-- Ended records stay for weeks and there are millions of them, so after the end a record is packed (lua/lib/packing.lua): its
-- values in a fixed order, split by a separator, without the field names, with ids and times told by their differences. They
-- stand in fields '0', '1', ... of at most 64 bytes, since a longer value makes Redis store the hash as a table of three times
-- the size. The state and whatever else there is (metadata and other JSON) stay fields of their own. A field that somebody sets
-- in a packed record afterwards is the one that counts. lua/lib/hold.lua names the fields.
--
-- Live records are never packed. Redis runs a script's whole text at each call, so what only packed ones need is made where it
-- is used.

-- The values of a packed text by the names of their fields. `code` is the partition as ids have it.
local function unpack_fields(text, code)
  local function from_hex(digits, base)
    if digits == '' then
      return nil
    elseif string.sub(digits, 1, 1) == '-' then
      return ms_text(base - tonumber(string.sub(digits, 2), 16))
    end
    return ms_text(tonumber(digits, 16) + base)
  end
  -- '=' is the maker of the reservation, '*' is system, '~' stands for what all keys of the partition start with.
  local function long_id(short, maker)
    local first = string.sub(short, 1, 1)
    if first == '=' then
      return maker
    end
    return first == '*' and 'system' or first == '~' and 'key_' .. code .. string.sub(short, 2) or short ~= '' and short or nil
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

  -- packed-scope.ts in src/reservations knows that the tenant and the levels come first. The idempotency key comes last, as it
  -- alone may hold any byte.
  local tn, ws, ap, wf, ag, ts, terms, am, ch, ca, ex, fa, gr, mx, mt, ki, eb, ak, an, xs, ev, tv, rr, ik =
    string.match(text, '^' .. string.rep('([^\31]*)\31', 23) .. '(.*)$')
  if not tn then
    error('a packed record has not the form of one')
  end
  local units = { u = 'USD_MICROCENTS', t = 'TOKENS', c = 'CREDITS', r = 'RISK_POINTS' }
  local policies = { r = 'REJECT', a = 'ALLOW_IF_AVAILABLE', o = 'ALLOW_WITH_OVERDRAFT' }
  local born, maker = tonumber(ca, 16), long_id(ki)
  local fields = {
    tn = tn, ws = own(ws), ap = own(ap), wf = own(wf), ag = own(ag), ts = own(ts),
    un = units[string.sub(terms, 1, 1)], op = policies[string.sub(terms, 2, 2)], bm = string.sub(terms, 3),
    am = am, ch = ch == '=' and am or own(ch), ca = ms_text(born), ex = from_hex(ex, born), fa = from_hex(fa, born),
    gr = from_hex(gr, 0), mx = from_hex(mx, 0), mt = from_hex(mt, 0), ki = maker, eb = long_id(eb, maker),
    ak = own(ak), an = own(an), tv = own(tv), rr = own(rr), ik = long_key(ik),
  }
  local told, sequence = string.match(ev, '^(%-?%x+)(%-%d+)$')
  fields.ev = told and from_hex(told, born) .. sequence
  local count = 0
  for at, granted, by in string.gmatch(xs, '(%-?%x+)%+(%x+)%+([^,]*)') do
    count = count + 1
    fields['x' .. count] = from_hex(at, born) .. '+' .. from_hex(granted, 0) .. (by == '' and '' or '+' .. long_id(by, maker))
  end
  fields.xc = count > 0 and ms_text(count) or nil
  return fields
end

-- tn, ws, ap, wf, ag, ts, un and bm out of a live record's `su`, nil where there is none; nothing when it has not the form of one.
-- No value holds the separator. packed-scope.ts in src/reservations knows that the tenant and the levels come first here, too.
local function split_subject(text)
  local tn, ws, ap, wf, ag, ts, un, bm = string.match(text, '^' .. string.rep('([^\31]*)\31', 7) .. '([^\31]*)$')
  local function own(value)
    return value ~= '' and value or nil
  end
  return own(tn), own(ws), own(ap), own(wf), own(ag), own(ts), own(un), own(bm)
end

local function subject_text(fields)
  return table.concat({ fields.tn or '', fields.ws or '', fields.ap or '', fields.wf or '', fields.ag or '', fields.ts or '',
    fields.un or '', fields.bm or '' }, '\31')
end

-- Puts the subject of a live record and the packed values of an ended one under their own names.
local function spell_out(fields, key)
  local tn, ws, ap, wf, ag, ts, un, bm = split_subject(fields.su or '')
  if tn then
    fields.tn, fields.ws, fields.ap, fields.wf, fields.ag, fields.ts, fields.un, fields.bm = tn, ws, ap, wf, ag, ts, un, bm
    fields.su = nil
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
  -- What cannot be unpacked is not known: the record then lacks these fields.
  local readable, values = pcall(unpack_fields, table.concat(pieces), string.sub(key, 3, 4))
  for name, value in pairs(readable and values or {}) do
    fields[name] = fields[name] or value
  end
  return fields
end

-- All fields of a record by name, in whichever form it is stored. Empty when there is none. A record may hold a megabyte of
-- metadata: whoever reads many takes short_fields.
local function record_fields(key)
  local flat, fields = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return spell_out(fields, key)
end

-- How long the free texts of a record are: those of which it can have large ones.
local function text_length(key)
  return redis.call('HSTRLEN', key, 'md') + redis.call('HSTRLEN', key, 'cm')
end

-- The fields of a record without its extensions and, where they are long, without its free texts: a few kilobytes at most.
local SHORT_TEXT = 1024
local SHORT_FIELDS = { 'st', 'su', 'tn', 'ws', 'ap', 'wf', 'ag', 'ts', 'tv', 'dm', 'ak', 'an', 'at', 'ik', 'un', 'am', 'op', 'bm', 'mt', 'ca',
  'ex', 'gr', 'mx', 'xc', 'ki', 'fa', 'eb', 'ch', 'rr', 'ev', 'qa', 'qr' }
-- More pieces than the longest packed values take.
local PIECES = 64

local function short_fields(key)
  if text_length(key) <= SHORT_TEXT then
    return record_fields(key)
  end
  local names = { unpack(SHORT_FIELDS) }
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
