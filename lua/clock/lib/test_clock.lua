-- test_clock: the time of a deployment with a test clock: that of Redis and an offset, or while it is advanced, the
-- instant at which it stands.
-- @include keys, time
--
-- No script includes this part, so the library of production does not have it. With HOLDFAST_TEST_CLOCK,
-- src/redis/script-library.ts puts it behind the library, where it replaces what every script calls.
-- The key is a hash: `ahead_ms`, how far time is ahead of Redis' clock; while an advance is under way, `stands_at`, the
-- instant at which time stands meanwhile, and `from`, the one at which it began; and `to`, the target of this advance
-- or of the last one.
local function now_ms()
  local clock = redis.call('HMGET', keys.test_clock(), 'stands_at', 'ahead_ms')
  return tonumber(clock[1]) or time.redis_ms() + (tonumber(clock[2]) or 0)
end

-- Ids follow the same time, so that entries are in its order. Redis alone would give them its own. A stream whose last
-- entry was later, because Redis' clock stepped back, goes on from there, as it does without a test clock, also if that
-- entry has been removed.
local function entry_id(stream)
  local info, last_ms = redis.pcall('XINFO', 'STREAM', stream), 0
  for i = 1, info.err and 0 or #info, 2 do
    if info[i] == 'last-generated-id' then
      last_ms = tonumber(string.match(info[i + 1], '^%d+'))
    end
  end
  return time.ms_text(math.max(now_ms(), last_ms)) .. '-*'
end

time.now_ms, time.entry_id = now_ms, entry_id
