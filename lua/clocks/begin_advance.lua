#!lua flags=allow-oom
-- begin_advance: say how far a test clock is to be advanced. Its tenants' time passes by lua/clocks/advance_tenant.lua.
-- allow-oom: what expires frees memory.
--
-- KEYS[1]   test_clock       hash
-- KEYS[2]   clock_tenants    sorted set of the clock's tenants
-- ARGV[1]   to_ms
-- ARGV[2]   longest_ms       the farthest that one advance may go
-- ARGV[3]   actor            admin
-- ARGV[4]   key_id           empty for an operator
-- ARGV[5]   request_id
-- ARGV[6]   trace            trace id and flags, source address, user agent: see lib/audit_log
-- RETURNS   ADVANCING from_ms tenants* | NOT_FOUND | NOT_FORWARD clock_now_ms | TOO_FAR clock_now_ms
-- BOUND     as many tenants as a clock may have
-- EMITS     nothing
-- @include  audit_log, keys
--
-- A repetition to the same instant continues an advance that was interrupted. One to a later instant extends it.
local test_clock, clock_tenants = KEYS[1], KEYS[2]
local to_ms, longest_ms = ARGV[1], tonumber(ARGV[2])
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }

local tag = keys.tag_of(test_clock)
local clock = redis.call('HMGET', test_clock, 'now', 'advancing_to', 'clock_id')
if not clock[1] then
  return { 'NOT_FOUND' }
end
local reached = clock[2] or clock[1]
if tonumber(to_ms) < tonumber(reached) then
  return { 'NOT_FORWARD', reached }
end
if tonumber(to_ms) - tonumber(clock[1]) > longest_ms then
  return { 'TOO_FAR', clock[1] }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
if to_ms ~= clock[1] then
  redis.call('HSET', test_clock, 'advancing_to', to_ms)
end
audit_log.append_audit(tag, 'advanceTestClock', 200, '__system__', 'test_clock', clock[3], origin, { 'from', clock[1], 'to', to_ms })
return { 'ADVANCING', clock[1], unpack(redis.call('ZRANGE', clock_tenants, 0, -1)) }
