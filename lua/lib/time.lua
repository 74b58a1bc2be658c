-- time: Redis' clock, in whole milliseconds. No decision uses any other clock.
-- In a deployment with a test clock, lua/clock/lib/test_clock.lua replaces now_ms and entry_id.

-- Only for what is kept for a time, and for what Redis itself lets lapse: an advance of a test clock leaves these
-- alone.
local function redis_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The id for XADD of the next entry of a stream.
local function entry_id()
  return '*'
end

-- Milliseconds as text. Lua prints large numbers with an exponent, which our readers do not accept.
local function ms_text(ms)
  return string.format('%d', ms)
end

return { entry_id = entry_id, ms_text = ms_text, now_ms = redis_ms, redis_ms = redis_ms }
