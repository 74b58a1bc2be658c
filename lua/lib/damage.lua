-- damage: what can be known of a reservation whose record is damaged, so that it can still be read, listed and released.
-- @include keys, int64, hold, record, now_ms
--
-- The tenant's index of reservations knows the owner and the creation of a record that does not tell them. What nobody knows gets
-- the value that claims least: nothing is held, at no scope, and the lease ended when it began.

-- Tenants of the partition that are asked for a reservation whose record does not name its own.
local MOST_TENANTS = 1000
local LARGEST_COUNT = 2147483647

-- When the tenant made the reservation, in ms, or nil where its index does not hold it.
local function creation_in_index(tag, tenant, reservation_id)
  local score = tenant and redis.pcall('ZSCORE', reservation_index_key(tag, tenant), reservation_id)
  return type(score) == 'string' and score or nil
end

-- The owner of a reservation and its creation. `tenant` is who should own it, or nil.
local function owner_of(tag, reservation_id, tenant)
  local created_at = creation_in_index(tag, tenant, reservation_id)
  if created_at then
    return tenant, created_at
  end
  local tenants = redis.pcall('ZRANGE', tenant_index_key(tag), 0, MOST_TENANTS - 1)
  for i = 1, #tenants do
    created_at = creation_in_index(tag, tenants[i], reservation_id)
    if created_at then
      return tenants[i], created_at
    end
  end
  return tenant, nil
end

-- The state, also where the record has none that there is: only an ended record is bound to go, and knows when it ended.
local function known_state(key, state)
  if HOLD_STATES[state] then
    return state
  end
  local ended = redis.call('HMGET', key, 'fa', 'ch', 'ev', 'rr')
  if not ended[1] and redis.call('PTTL', key) < 0 then
    return 'ACTIVE'
  end
  return ended[2] and 'COMMITTED' or ended[3] and not ended[4] and 'EXPIRED' or 'RELEASED'
end

-- Why a record cannot be told as it is, or nil. `fields` are those of record_fields.
local function record_defect(hold, fields)
  local ended = hold.state ~= 'ACTIVE'
  return hold_defect(hold) or not whole_number(fields.ca) and 'INVALID_CREATION'
    or ended and not whole_number(fields.fa) and 'INVALID_END'
    or hold.state == 'COMMITTED' and not i64_is_amount(fields.ch) and 'INVALID_END' or nil
end

local function whole_text(text)
  return whole_number(text) and text or nil
end

-- Extensions are told all or not at all.
local function drop_damaged_extensions(known)
  local count = string.find(known.xc or '0', '^%d%d?%d?$') and tonumber(known.xc or '0') or -1
  for i = 1, count do
    if not string.find(known['x' .. i] or '', '^%d+%+%d+%+?[%w_]*$') then
      count = -1
    end
  end
  for name in pairs(known) do
    if string.find(name, '^x%d+$') and (count < 0 or tonumber(string.sub(name, 2)) > count) or name == 'xc' and count <= 0 then
      known[name] = nil
    end
  end
end

-- The fields of a damaged record with what can be known in place of what is damaged. `fields` are those of record_fields or
-- short_fields, `tenant` and `created_at` those of owner_of, and nil where nobody knows.
local function known_fields(key, fields, tenant, created_at)
  local known = {}
  for name, value in pairs(fields) do
    if name ~= 'su' and not string.find(name, '^%d+$') then
      known[name] = value
    end
  end
  local subject = new_subject(tenant or '__system__', fields.ws, fields.ap, fields.wf, fields.ag, fields.ts, fields.un, fields.bm or '')
  local levels = subject.levels
  known.tn, known.ws, known.ap, known.wf = subject.tenant, levels[1] or nil, levels[2] or nil, levels[3] or nil
  known.ag, known.ts = levels[4] or nil, levels[5] or nil
  known.tv = known.tv and string.lower(known.tv) == subject.tenant and known.tv or nil
  known.bm = tenant and not subject.defect and fields.tn == tenant and fields.bm or string.rep('0', #subject.scopes)
  known.am = subject.unit and i64_is_amount(fields.am) and fields.am or '0'
  known.un = subject.unit or 'USD_MICROCENTS'
  known.st = known_state(key, fields.st)
  known.fa = whole_text(fields.fa)
  known.ca = whole_text(fields.ca) or whole_text(created_at) or known.fa or '0'
  known.ex, known.gr = whole_text(fields.ex) or known.ca, whole_text(fields.gr) or '0'
  known.ch = i64_is_amount(fields.ch) and fields.ch or nil
  known.op = HOLD_POLICIES[fields.op] and fields.op or nil
  known.mt = whole_text(fields.mt)
  known.xp = EXPIRY_POLICIES[fields.xp] and fields.xp or nil
  known.mx = whole_number(fields.mx) and whole_number(fields.mx) <= LARGEST_COUNT and fields.mx or nil
  known.ev = string.find(fields.ev or '', '^%d+%-%d+$') and fields.ev or nil
  drop_damaged_extensions(known)
  return known
end

-- A hold as load_hold makes it, out of known_fields.
local function known_hold(key, known)
  local subject = new_subject(known.tn, known.ws, known.ap, known.wf, known.ag, known.ts, known.un, known.bm)
  return {
    key = key, state = known.st, amount = known.am, expires_at = tonumber(known.ex), grace_ms = tonumber(known.gr), xp = known.xp, fields = known,
    subject = subject, tenant = subject.tenant, unit = subject.unit, mask = subject.mask, levels = subject.levels, scopes = subject.scopes,
    ca = known.ca, ik = known.ik,
  }
end
