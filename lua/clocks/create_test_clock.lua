#!lua
-- create_test_clock: create a test clock, which stands still at an instant.
--
-- KEYS[1]   test_clock       hash, created by this script
-- KEYS[2]   test_clocks      sorted set of all test clocks, score = creation time in ms
-- ARGV[1]   clock_id         the id to assign
-- ARGV[2]   name
-- ARGV[3]   instant          ms
-- ARGV[4]   most             test clocks of a deployment
-- ARGV[5]   actor            admin
-- ARGV[6]   key_id           empty for an operator
-- ARGV[7]   request_id
-- ARGV[8]   trace            trace id and flags, source address, user agent: see lib/audit_log
-- RETURNS   CREATED record{} | LIMIT_EXCEEDED used:int
-- BOUND     one test clock
-- EMITS     nothing
-- @include  audit_log, keys, time
--
-- Test clocks are in the partition of the operators. A record has clock_id, name, now and created_at, and while an advance is not
-- finished, advancing_to. `now` is the instant that all tenants of the clock have reached.
local test_clock, test_clocks = KEYS[1], KEYS[2]
local clock_id, name, instant, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8] }

local tag = keys.tag_of(test_clock)
local used = redis.call('ZCARD', test_clocks)
if used >= most then
  return { 'LIMIT_EXCEEDED', tostring(used) }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local created_at = time.ms_text(time.now_ms())
redis.call('ZADD', test_clocks, created_at, clock_id)
redis.call('HSET', test_clock, 'clock_id', clock_id, 'name', name, 'now', instant, 'created_at', created_at)
audit_log.append_audit(tag, 'createTestClock', 201, '__system__', 'test_clock', clock_id, origin, { 'name', name, 'now', instant })
return { 'CREATED', unpack(redis.call('HGETALL', test_clock)) }
