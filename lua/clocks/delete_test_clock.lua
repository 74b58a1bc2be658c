#!lua flags=allow-oom
-- delete_test_clock: delete a test clock whose tenants are all closed. Their time stands still for good.
-- allow-oom: it frees memory.
--
-- KEYS[1]   test_clock       hash
-- KEYS[2]   test_clocks      sorted set of all test clocks
-- KEYS[3]   clock_tenants    sorted set of the clock's tenants
-- ARGV[1]   clock_id
-- ARGV[2]   actor            admin
-- ARGV[3]   key_id           empty for an operator
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags, source address, user agent: see lib/audit_log
-- ARGV[...] the tenants that the caller has found closed, or with another time
-- RETURNS   DELETED | NOT_FOUND | IN_USE
-- BOUND     one test clock, as many tenants as it may have
-- EMITS     nothing
-- @include  audit_log, keys, time
--
-- IN_USE: a tenant that is not among these has joined just now, and is being created. One that joined longer ago has never been created.
local test_clock, test_clocks, clock_tenants = KEYS[1], KEYS[2], KEYS[3]
local clock_id, first_tenant = ARGV[1], 6
local origin = { actor = ARGV[2], key = ARGV[3], request = ARGV[4], trace = ARGV[5] }
-- Longer than any request that creates a tenant.
local CREATION_MS = 60000

local tag = keys.tag_of(test_clock)
if redis.call('EXISTS', test_clock) == 0 then
  return { 'NOT_FOUND' }
end
local done = {}
for i = first_tenant, #ARGV do
  done[ARGV[i]] = true
end
local tenants = #ARGV - first_tenant + 1
for _, tenant_id in ipairs(redis.call('ZRANGEBYSCORE', clock_tenants, time.now_ms() - CREATION_MS, '+inf', 'LIMIT', 0, tenants + 1)) do
  if not done[tenant_id] then
    return { 'IN_USE' }
  end
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('ZREM', test_clocks, clock_id)
redis.call('DEL', test_clock, clock_tenants)
audit_log.append_audit(tag, 'deleteTestClock', 204, '__system__', 'test_clock', clock_id, origin, {})
return { 'DELETED' }
