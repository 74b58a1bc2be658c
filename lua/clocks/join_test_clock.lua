#!lua
-- join_test_clock: enter a tenant that is about to be created into the tenants of a test clock.
--
-- KEYS[1]   test_clock       hash
-- KEYS[2]   clock_tenants    sorted set of the clock's tenants, score = when they joined in ms
-- ARGV[1]   tenant_id
-- ARGV[2]   most             tenants of a clock
-- RETURNS   JOINED clock_now_ms joined_at_ms | NOT_FOUND | ADVANCING to_ms | LIMIT_EXCEEDED used:int
-- BOUND     one tenant
-- EMITS     nothing
-- @include  time
--
-- An advance that begins before the tenant exists passes it over. The service then lets the tenant's time pass itself. No two requests
-- that enter a tenant get the same joined_at_ms.
local test_clock, clock_tenants = KEYS[1], KEYS[2]
local tenant_id, most = ARGV[1], tonumber(ARGV[2])

local clock = redis.call('HMGET', test_clock, 'now', 'advancing_to')
if not clock[1] then
  return { 'NOT_FOUND' }
end
if clock[2] then
  return { 'ADVANCING', clock[2] }
end
local used = redis.call('ZCARD', clock_tenants)
if used >= most and not redis.call('ZSCORE', clock_tenants, tenant_id) then
  return { 'LIMIT_EXCEEDED', tostring(used) }
end

-- Nothing is refused below this line.
local joined_at = time.ms_text(math.max(time.now_ms(), tonumber(redis.call('ZSCORE', clock_tenants, tenant_id) or 0) + 1))
redis.call('ZADD', clock_tenants, joined_at, tenant_id)
return { 'JOINED', clock[1], joined_at }
