-- damage: recovers what it can of a reservation with a damaged record, so that it can still be read, listed and released.
-- @include fields: FIELD, LEVEL_FIELDS
-- @include keys: reservation_index_key, tenant_index_key
-- @include int64: i64_is_amount
-- @include hold: HOLD_STATES, EXPIRY_POLICIES, set_expiry_terms, whole_number, HOLD_POLICIES, new_subject, hold_defect
--
-- If the record lacks its owner or creation time, the tenant's index of reservations has them. Anything unknown gets the value that
-- claims least: nothing is held, at no scope, and the lease ended when it began.

-- How many tenants' indexes are searched for a reservation whose record does not name its tenant.
local MOST_TENANTS = 1000
local LARGEST_COUNT = 2147483647

-- When the tenant made the reservation, in ms, or nil if its index does not have it.
local function creation_in_index(tag, tenant, reservation_id)
  local score = tenant and redis.pcall('ZSCORE', reservation_index_key(tag, tenant), reservation_id)
  return type(score) == 'string' and score or nil
end

-- The owner of a reservation and its creation time. `tenant` is the presumed owner, or nil.
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

-- The state, also if the record's own is missing or invalid: only ended records expire in Redis or have an end time.
local function known_state(key, state)
  if HOLD_STATES[state] then
    return state
  end
  local ended = redis.call('HMGET', key, FIELD.ended_at, FIELD.charged, FIELD.end_event, FIELD.release_reason)
  if not ended[1] and redis.call('PTTL', key) < 0 then
    return 'ACTIVE'
  end
  return ended[2] and 'COMMITTED' or ended[3] and not ended[4] and 'EXPIRED' or 'RELEASED'
end

-- Why a record cannot be returned as it is, or nil. `fields` are those of record_fields.
local function record_defect(hold, fields)
  local ended = hold.state ~= 'ACTIVE'
  return hold_defect(hold) or not whole_number(fields[FIELD.created_at]) and 'INVALID_CREATION'
    or ended and not whole_number(fields[FIELD.ended_at]) and 'INVALID_END'
    or hold.state == 'COMMITTED' and not i64_is_amount(fields[FIELD.charged]) and 'INVALID_END' or nil
end

local function whole_text(text)
  return whole_number(text) and text or nil
end

-- Keeps all extensions or none.
local function drop_damaged_extensions(known)
  local used = known[FIELD.extensions_used] or '0'
  local count = string.find(used, '^%d%d?%d?$') and tonumber(used) or -1
  for i = 1, count do
    if not string.find(known[FIELD.extension .. i] or '', '^%d+%+%d+%+?[%w_]*$') then
      count = -1
    end
  end
  for name in pairs(known) do
    local number = tonumber(string.match(name, '^' .. FIELD.extension .. '(%d+)$'))
    if number and (count < 0 or number > count) or name == FIELD.extensions_used and count <= 0 then
      known[name] = nil
    end
  end
end

-- The fields of a damaged record, with what is known in place of what is damaged. `fields` are those of record_fields or
-- short_fields; `tenant` and `created_at` are those of owner_of, nil if unknown.
local function known_fields(key, fields, tenant, created_at)
  local known = {}
  for name, value in pairs(fields) do
    if name ~= FIELD.subject and name ~= FIELD.constants and not string.find(name, '^%d+$') then
      known[name] = value
    end
  end
  local subject = new_subject(tenant or '__system__', fields[FIELD.workspace], fields[FIELD.app], fields[FIELD.workflow],
    fields[FIELD.agent], fields[FIELD.toolset], fields[FIELD.unit], fields[FIELD.scope_mask] or '')
  known[FIELD.tenant] = subject.tenant
  for i, name in ipairs(LEVEL_FIELDS) do
    known[name] = subject.levels[i] or nil
  end
  local given_tenant = fields[FIELD.given_tenant]
  known[FIELD.given_tenant] = given_tenant and string.lower(given_tenant) == subject.tenant and given_tenant or nil
  known[FIELD.scope_mask] = tenant and not subject.defect and fields[FIELD.tenant] == tenant and fields[FIELD.scope_mask]
    or string.rep('0', #subject.scopes)
  known[FIELD.amount] = subject.unit and i64_is_amount(fields[FIELD.amount]) and fields[FIELD.amount] or '0'
  known[FIELD.unit] = subject.unit or 'USD_MICROCENTS'
  known[FIELD.state] = known_state(key, fields[FIELD.state])
  known[FIELD.ended_at] = whole_text(fields[FIELD.ended_at])
  known[FIELD.created_at] = whole_text(fields[FIELD.created_at]) or whole_text(created_at) or known[FIELD.ended_at] or '0'
  known[FIELD.expires_at] = whole_text(fields[FIELD.expires_at]) or known[FIELD.created_at]
  known[FIELD.grace_ms] = whole_text(fields[FIELD.grace_ms]) or '0'
  known[FIELD.charged] = i64_is_amount(fields[FIELD.charged]) and fields[FIELD.charged] or nil
  known[FIELD.overage_policy] = HOLD_POLICIES[fields[FIELD.overage_policy]] and fields[FIELD.overage_policy] or nil
  known[FIELD.max_ttl_ms] = whole_text(fields[FIELD.max_ttl_ms])
  known[FIELD.expiry_policy] = EXPIRY_POLICIES[fields[FIELD.expiry_policy]] and fields[FIELD.expiry_policy] or nil
  local max_extensions = whole_number(fields[FIELD.max_extensions])
  known[FIELD.max_extensions] = max_extensions and max_extensions <= LARGEST_COUNT and fields[FIELD.max_extensions] or nil
  known[FIELD.end_event] = string.find(fields[FIELD.end_event] or '', '^%d+%-%d+$') and fields[FIELD.end_event] or nil
  drop_damaged_extensions(known)
  return known
end

-- A hold in the form of load_hold, made from known_fields.
local function known_hold(key, known)
  local subject = new_subject(known[FIELD.tenant], known[FIELD.workspace], known[FIELD.app], known[FIELD.workflow], known[FIELD.agent],
    known[FIELD.toolset], known[FIELD.unit], known[FIELD.scope_mask])
  local hold = {
    key = key, state = known[FIELD.state], amount = known[FIELD.amount], expires_at = tonumber(known[FIELD.expires_at]),
    grace_ms = tonumber(known[FIELD.grace_ms]), fields = known,
    subject = subject, tenant = subject.tenant, unit = subject.unit, mask = subject.mask, levels = subject.levels, scopes = subject.scopes,
    [FIELD.created_at] = known[FIELD.created_at], [FIELD.idempotency_key] = known[FIELD.idempotency_key],
  }
  set_expiry_terms(hold, known[FIELD.expiry_policy])
  return hold
end
