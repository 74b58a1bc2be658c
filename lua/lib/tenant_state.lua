-- tenant_state: the owner's status, read before any other decision.
--
-- read_tenant returns the tenant's record as a table, or nil if the tenant was never created (it has no status).
-- tenant_status returns only the status, the watched marks of lua/lib/threshold.lua, and how many active policies limit
-- commits, which is all that a settlement needs.
-- set_derived sets a field that follows from what the tenant owns, or removes it if the value is nil. A tenant without
-- a record gets no field: a record without a status would stop everything of the tenant.
-- expiry_letter returns the tenant's expiry policy as a hold stores it (lua/lib/field.lua), nil for AUTO_RELEASE.
-- A record with any other status fails closed: the script ends with an error and writes nothing.
local EXPIRY_LETTERS = { MANUAL_CLEANUP = 'm', GRACE_ONLY = 'g' }
-- Of a tenant that sets none, or was never created: TENANT_DEFAULTS of src/governance/tenants/tenants.service.ts.
local DEFAULT_LEASE = { default_ttl_ms = 60000, max_ttl_ms = 3600000, max_extensions = 10 }
local TENANT_STATUS = { ACTIVE = true, SUSPENDED = true, CLOSED = true }

local function tenant_status(key)
  local fields = redis.call('HMGET', key, 'status', 'th', 'commit_rates')
  if not fields[1] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  if not TENANT_STATUS[fields[1]] then
    error('corrupt tenant record ' .. key .. ': its status is not ACTIVE, SUSPENDED or CLOSED')
  end
  return fields[1], fields[2], fields[3]
end

local function read_tenant(key)
  local fields = redis.call('HMGET', key, 'status', 'default_commit_overage_policy', 'default_reservation_ttl_ms',
    'max_reservation_ttl_ms', 'max_reservation_extensions', 'policies', 'th', 'reservation_expiry_policy',
    'observe_mode', 'charge_on_expiry_percent', 'templates')
  if not fields[1] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  if not TENANT_STATUS[fields[1]] then
    error('corrupt tenant record ' .. key .. ': its status is not ACTIVE, SUSPENDED or CLOSED')
  end
  return {
    status = fields[1],
    overage_policy = fields[2],
    default_ttl_ms = tonumber(fields[3] or DEFAULT_LEASE.default_ttl_ms),
    max_ttl_ms = tonumber(fields[4] or DEFAULT_LEASE.max_ttl_ms),
    max_extensions = tonumber(fields[5] or DEFAULT_LEASE.max_extensions),
    has_policies = fields[6] ~= false,
    marks = fields[7],
    expiry_policy = fields[8],
    observe_mode = fields[9],
    charge_percent = fields[10],
    -- The revision of the tenant's budget templates; false if it has none.
    templates = fields[11],
  }
end

local function set_derived(key, field, value)
  if value == nil then
    redis.call('HDEL', key, field)
  elseif redis.call('EXISTS', key) == 1 then
    redis.call('HSET', key, field, value)
  end
end

local function expiry_letter(tenant)
  local policy = tenant and tenant.expiry_policy
  if not policy or policy == 'AUTO_RELEASE' then
    return nil
  end
  return EXPIRY_LETTERS[policy]
    or error('corrupt tenant record: its reservation_expiry_policy is not AUTO_RELEASE, MANUAL_CLEANUP or GRACE_ONLY')
end

return {
  DEFAULT_LEASE = DEFAULT_LEASE, expiry_letter = expiry_letter, read_tenant = read_tenant, set_derived = set_derived,
  tenant_status = tenant_status,
}
