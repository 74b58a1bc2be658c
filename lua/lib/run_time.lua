-- run_time: the time of a run, the same for all its calls.
-- @include time

local function now(group)
  group.now = group.now or time.now_ms()
  return group.now
end

local function now_text(group)
  group.now_text = group.now_text or time.ms_text(now(group))
  return group.now_text
end

return { now = now, now_text = now_text }
