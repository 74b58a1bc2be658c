-- test_clock: the time of a deployment with a test clock: that of Redis and an offset, or while it is advanced, the instant at which it stands.
-- @include keys, time
--
-- No script includes this part, so the library of production does not have it. With HOLDFAST_TEST_CLOCK, src/redis/script-library.ts puts
-- it behind the library, where it replaces what every script calls.
-- The key is a hash: `ahead_ms`, how far time is ahead of Redis' clock; while an advance is under way, `stands_at`, the instant at
-- which time stands meanwhile, and `from`, the one at which it began; and `to`, the target of this advance or of the last one.
local function now_ms()
  local clock = redis.call('HMGET', keys.test_clock(), 'stands_at', 'ahead_ms')
  return tonumber(clock[1]) or time.redis_ms() + (tonumber(clock[2]) or 0)
end

-- Ids follow the same time, so that entries are in its order. Redis alone would give them its own. A stream whose last entry is later,
-- because Redis' clock stepped back, goes on from there, as it does without a test clock.
local function entry_id(stream)
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  local last_ms = last and tonumber(string.match(last[1], '^%d+')) or 0
  return time.ms_text(math.max(now_ms(), last_ms)) .. '-*'
end

time.now_ms, time.entry_id = now_ms, entry_id
