#!lua flags=allow-oom
-- delete_test_clock: delete a test clock whose tenants are all closed. Their time stands still for good.
-- allow-oom: it frees memory.
--
-- KEYS[1]   test_clock       hash
-- KEYS[2]   test_clocks      sorted set of all test clocks
-- KEYS[3]   clock_tenants    sorted set of the clock's tenants
-- ARGV[1]   clock_id
-- ARGV[2]   tenants          how many the caller has found closed
-- ARGV[3]   actor            admin
-- ARGV[4]   key_id           empty for an operator
-- ARGV[5]   request_id
-- ARGV[6]   trace            trace id and flags, source address, user agent: see lib/append_audit
-- RETURNS   DELETED | NOT_FOUND | IN_USE
-- BOUND     one test clock, as many tenants as it may have
-- EMITS     nothing
-- @include  keys: tag_of_key
-- @include  append_audit: append_audit, require_audit_log
--
-- IN_USE: a tenant has joined since the caller looked. Tenants never leave a clock once they exist.
local test_clock, test_clocks, clock_tenants = KEYS[1], KEYS[2], KEYS[3]
local clock_id, tenants = ARGV[1], tonumber(ARGV[2])
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }

local tag = tag_of_key(test_clock)
if redis.call('EXISTS', test_clock) == 0 then
  return { 'NOT_FOUND' }
end
if redis.call('ZCARD', clock_tenants) ~= tenants then
  return { 'IN_USE' }
end
require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('ZREM', test_clocks, clock_id)
redis.call('DEL', test_clock, clock_tenants)
append_audit(tag, 'deleteTestClock', 204, '__system__', 'test_clock', clock_id, origin, {})
return { 'DELETED' }
