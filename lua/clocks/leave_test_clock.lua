#!lua flags=allow-oom
-- leave_test_clock: remove a tenant that could not be created from the tenants of a test clock.
--
-- KEYS[1]   clock_tenants    sorted set of the clock's tenants
-- ARGV[1]   tenant_id
-- RETURNS   LEFT
-- BOUND     one tenant
-- EMITS     nothing
local clock_tenants = KEYS[1]
local tenant_id = ARGV[1]

-- Nothing is refused below this line.
redis.call('ZREM', clock_tenants, tenant_id)
return { 'LEFT' }
