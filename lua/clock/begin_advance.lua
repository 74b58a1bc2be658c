#!lua flags=allow-oom
-- begin_advance: stop the test clock, and say how far it is to be advanced. lua/clock/step_advance.lua lets the time
-- pass.
-- allow-oom: what expires frees memory.
--
-- KEYS[1]   test_clock       hash, see lib/test_clock.lua
-- KEYS[2]   audit_log        stream, of the operators' partition
-- ARGV[1]   to_ms            the target, or empty
-- ARGV[2]   by_ms            how far it is from where the advance begins, or empty
-- ARGV[3]   longest_ms       the farthest that one advance may go
-- ARGV[4]   last_ms          the last instant that the clock may reach
-- ARGV[5-8] origin           actor is admin
-- RETURNS   ADVANCING | READY | NOT_FORWARD limit_ms | TOO_FAR limit_ms
-- BOUND     one record
-- EMITS     nothing
-- @include  audit_log, keys, time
--
-- A repetition continues an advance that was interrupted: by_ms counts from where that began. One to a later instant
-- extends it. READY: the target is that of the last advance, whose answer may have been lost.
local test_clock, log = KEYS[1], KEYS[2]
local to_ms, by_ms, longest_ms, last_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8] }

local tag = keys.tag_of(log)
local clock = redis.call('HMGET', test_clock, 'stands_at', 'from', 'to')
local stands_at, reached = tonumber(clock[1]), tonumber(clock[3])
local now = time.now_ms()
local from = stands_at and tonumber(clock[2]) or now
local target = to_ms or from + by_ms
if not stands_at and to_ms and to_ms == reached then
  return { 'READY' }
end
local earliest = stands_at and reached or now
if target < earliest then
  return { 'NOT_FORWARD', time.ms_text(earliest) }
end
local latest = math.min(from + longest_ms, last_ms)
if target > latest then
  return { 'TOO_FAR', time.ms_text(latest) }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', test_clock, 'stands_at', time.ms_text(now), 'from', time.ms_text(from), 'to', time.ms_text(target))
audit_log.append_audit(tag, 'advanceTestClock', 200, '__system__', 'test_clock', 'test_clock', origin,
  { 'from', time.ms_text(from), 'to', time.ms_text(target) })
return { 'ADVANCING' }
