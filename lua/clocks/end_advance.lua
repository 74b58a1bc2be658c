#!lua flags=allow-oom
-- end_advance: say that all tenants of a test clock have reached an instant.
-- allow-oom: it writes next to nothing, and the advance is over only then.
--
-- KEYS[1]   test_clock       hash
-- ARGV[1]   to_ms
-- RETURNS   ENDED | NOT_FOUND
-- BOUND     one test clock
-- EMITS     nothing
--
-- Another instance may have ended this advance in the meantime, and begun or ended a later one. The script leaves a later one alone.
local test_clock = KEYS[1]
local to_ms = ARGV[1]

local clock = redis.call('HMGET', test_clock, 'now', 'advancing_to')
if not clock[1] then
  return { 'NOT_FOUND' }
end

-- Nothing is refused below this line.
if tonumber(to_ms) > tonumber(clock[1]) then
  redis.call('HSET', test_clock, 'now', to_ms)
end
if clock[2] and tonumber(clock[2]) <= tonumber(to_ms) then
  redis.call('HDEL', test_clock, 'advancing_to')
end
return { 'ENDED' }
