-- time: Redis' clock, in whole milliseconds. No decision uses any other clock.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Milliseconds as text. Lua prints large numbers with an exponent, which our readers do not accept.
local function ms_text(ms)
  return string.format('%d', ms)
end

return { ms_text = ms_text, now_ms = now_ms }
