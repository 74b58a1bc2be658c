-- now_ms: the server's clock, in whole milliseconds. The only clock that any decision uses.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A millisecond count as text: Lua prints large numbers with an exponent, which no reader here accepts.
local function ms_text(ms)
  return string.format('%d', ms)
end
