-- tenant_clock: the time of a tenant: Redis' time, or that of its test clock, which stands still until it is advanced.
-- @include keys, time
--
-- The record of a tenant with a test clock has the clock's id and instant (clock_id, clock_now). Scripts that read the record anyway find
-- them there. A hold of such a tenant is marked (lua/lib/hold_record.lua), so that nothing else is read for the holds of others. What such a
-- tenant has to wait for is in indexes of its own, which no job reads: only lua/clocks/advance_tenant.lua passes their instants.

-- The instant of a tenant's test clock in ms, or nil if it has none.
local function clock_of(tag, tenant_id)
  local instant = redis.pcall('HGET', keys.tenant(tag, tenant_id), 'clock_now')
  return type(instant) == 'string' and tonumber(instant) or nil
end

-- The tenant's time, and the same again if it is that of a test clock.
local function tenant_now(tag, tenant_id)
  local clock_ms = clock_of(tag, tenant_id)
  return clock_ms or time.now_ms(), clock_ms
end

local function tenant_of_scope(scope)
  return string.match(scope, '^tenant:([^/]+)') or ''
end

-- The indexes that have the boundaries of a tenant's budgets, and when these must be planned again.
local function period_index_of(tag, tenant_id)
  return clock_of(tag, tenant_id) and keys.clock_periods(tag, tenant_id) or keys.period_index(tag)
end

local function period_plans_of(tag, tenant_id)
  return clock_of(tag, tenant_id) and keys.clock_plans(tag, tenant_id) or keys.period_plans(tag)
end

-- The time of the tenant whose budget has this key.
local function budget_now(key)
  return (tenant_now(keys.tag_of(key), string.match(key, ':tenant:([^/]+)') or ''))
end

return {
  budget_now = budget_now, clock_of = clock_of, period_index_of = period_index_of, period_plans_of = period_plans_of,
  tenant_now = tenant_now, tenant_of_scope = tenant_of_scope,
}
