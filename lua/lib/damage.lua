-- damage: recovers what it can of a reservation with a damaged record, so that it can still be read, listed and
-- released.
-- @include field, hold_record, int64, keys
--
-- If the record lacks its owner or creation time, the tenant's index of reservations has them. Anything unknown gets
-- the value that claims least: nothing is held, at no scope, and the lease ended when it began.

-- How many tenants' indexes are searched for a reservation whose record does not name its tenant.
local MOST_TENANTS = 1000
local LARGEST_COUNT = 2147483647

-- When the tenant made the reservation, in ms, or nil if its index does not have it.
local function creation_in_index(tag, tenant, reservation_id)
  local score = tenant and redis.pcall('ZSCORE', keys.reservation_index(tag, tenant), reservation_id)
  return type(score) == 'string' and score or nil
end

-- The owner of a reservation and its creation time. `tenant` is the presumed owner, or nil.
local function owner_of(tag, reservation_id, tenant)
  local created_at = creation_in_index(tag, tenant, reservation_id)
  if created_at then
    return tenant, created_at
  end
  local tenants = redis.pcall('ZRANGE', keys.tenant_index(tag), 0, MOST_TENANTS - 1)
  for i = 1, #tenants do
    created_at = creation_in_index(tag, tenants[i], reservation_id)
    if created_at then
      return tenants[i], created_at
    end
  end
  return tenant, nil
end

-- The state, also if the record's own is missing or invalid: only ended records expire in Redis or have an end time.
local function known_state(key, state)
  if hold_record.HOLD_STATES[state] then
    return state
  end
  local ended = redis.call('HMGET', key, field.ended_at, field.charged, field.end_event, field.release_reason)
  if not ended[1] and redis.call('PTTL', key) < 0 then
    return 'ACTIVE'
  end
  return ended[2] and 'COMMITTED' or ended[3] and not ended[4] and 'EXPIRED' or 'RELEASED'
end

-- Why a record cannot be returned as it is, or nil. `fields` are those of record_fields.
local function record_defect(hold, fields)
  local ended = hold.state ~= 'ACTIVE'
  return hold_record.hold_defect(hold) or not hold_record.whole_number(fields[field.created_at]) and 'INVALID_CREATION'
    or ended and not hold_record.whole_number(fields[field.ended_at]) and 'INVALID_END'
    or hold.state == 'COMMITTED' and not int64.is_amount(fields[field.charged]) and 'INVALID_END' or nil
end

-- What a field of each kind may show. Readers judge texts and JSON themselves, because only they parse them.
local SOUND = {
  amount = int64.is_amount,
  time = hold_record.whole_number,
  count = function(text) return (hold_record.whole_number(text) or LARGEST_COUNT + 1) <= LARGEST_COUNT end,
  entry = function(text) return string.find(text, '^%d+%-%d+$') end,
  form = function() return false end,
}

-- Keeps all extensions or none.
local function drop_damaged_extensions(known)
  local used = known[field.extensions_used] or '0'
  local count = string.find(used, '^%d%d?%d?$') and tonumber(used) or -1
  for i = 1, count do
    if not string.find(known[field.extension .. i] or '', '^%d+%+%d+%+?[%w_]*$') then
      count = -1
    end
  end
  for name in pairs(known) do
    local number = tonumber(string.match(name, '^' .. field.extension .. '(%d+)$'))
    if number and (count < 0 or number > count) or name == field.extensions_used and count <= 0 then
      known[name] = nil
    end
  end
end

-- The fields of a damaged record, with what is known in place of what is damaged. `fields` are those of record_fields
-- or short_fields; `tenant` and `created_at` are those of owner_of, nil if unknown.
local function known_fields(key, fields, tenant, created_at)
  local known = {}
  for name, value in pairs(fields) do
    local is_sound = SOUND[field.KINDS[name]]
    if not string.find(name, '^%d+$') and (not is_sound or is_sound(value)) then
      known[name] = value
    end
  end
  local subject = hold_record.new_subject(tenant or '__system__', fields[field.workspace], fields[field.app],
    fields[field.workflow], fields[field.agent], fields[field.toolset], fields[field.unit],
    fields[field.scope_mask] or '')
  known[field.tenant] = subject.tenant
  for i, name in ipairs(field.LEVELS) do
    known[name] = subject.levels[i] or nil
  end
  local given_tenant = fields[field.given_tenant]
  known[field.given_tenant] = given_tenant and string.lower(given_tenant) == subject.tenant and given_tenant or nil
  known[field.scope_mask] = tenant and not subject.defect and fields[field.tenant] == tenant
    and fields[field.scope_mask]
    or string.rep('0', #subject.scopes)
  known[field.amount] = subject.unit and known[field.amount] or '0'
  known[field.unit] = subject.unit or 'USD_MICROCENTS'
  known[field.state] = known_state(key, fields[field.state])
  known[field.created_at] = known[field.created_at] or hold_record.whole_number(created_at) and created_at
    or known[field.ended_at] or '0'
  known[field.expires_at] = known[field.expires_at] or known[field.created_at]
  known[field.grace_ms] = known[field.grace_ms] or '0'
  known[field.overage_policy] = hold_record.HOLD_POLICIES[fields[field.overage_policy]]
    and fields[field.overage_policy] or nil
  known[field.expiry_policy] = hold_record.EXPIRY_POLICIES[fields[field.expiry_policy]]
    and fields[field.expiry_policy] or nil
  local charge = known[field.charge_on_expiry]
  known[field.charge_on_expiry] = charge and not int64.less(known[field.amount], charge) and charge or nil
  drop_damaged_extensions(known)
  return known
end

-- A hold in the form of load_hold, made from known_fields.
local function known_hold(key, known)
  local subject = hold_record.new_subject(known[field.tenant], known[field.workspace], known[field.app],
    known[field.workflow], known[field.agent], known[field.toolset], known[field.unit], known[field.scope_mask])
  local hold = {
    key = key, state = known[field.state], amount = known[field.amount], expires_at = tonumber(known[field.expires_at]),
    grace_ms = tonumber(known[field.grace_ms]), fields = known,
    subject = subject, tenant = subject.tenant, unit = subject.unit, mask = subject.mask,
    levels = subject.levels, scopes = subject.scopes,
    [field.created_at] = known[field.created_at], [field.idempotency_key] = known[field.idempotency_key],
  }
  hold.expiry_letter = known[field.expiry_policy]
  return hold
end

return {
  creation_in_index = creation_in_index, known_fields = known_fields, known_hold = known_hold,
  known_state = known_state, owner_of = owner_of, record_defect = record_defect,
}
