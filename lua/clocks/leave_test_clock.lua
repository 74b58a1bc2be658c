#!lua flags=allow-oom
-- leave_test_clock: remove a tenant that could not be created from the tenants of a test clock.
--
-- KEYS[1]   clock_tenants    sorted set of the clock's tenants
-- ARGV[1]   tenant_id
-- ARGV[2]   joined_at_ms     as join_test_clock has given it
-- RETURNS   LEFT | STAYS
-- BOUND     one tenant
-- EMITS     nothing
--
-- STAYS: another request has entered the tenant since, and may create it.
local clock_tenants = KEYS[1]
local tenant_id, joined_at = ARGV[1], tonumber(ARGV[2])

if tonumber(redis.call('ZSCORE', clock_tenants, tenant_id) or '') ~= joined_at then
  return { 'STAYS' }
end

-- Nothing is refused below this line.
redis.call('ZREM', clock_tenants, tenant_id)
return { 'LEFT' }
