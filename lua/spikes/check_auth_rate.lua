#!lua
-- check_auth_rate: count authentications of all instances, and emit the events of a failure rate that exceeds a
-- threshold.
--
-- KEYS[1]   event_log      stream
-- ARGV[1]   attempts       authentications that the instance has not counted yet
-- ARGV[2]   failures       how many of them failed
-- ARGV[3]   least          failures below which the rate is not judged
-- ARGV[...] for each threshold: the threshold as a fraction, and the window in seconds
-- RETURNS   CHECKED emitted(threshold window_s)*
-- BOUND     20 thresholds, 720 counters for each
-- EMITS     api_key.auth_failure_rate_spike
-- @include  event_writer, keys, rate_window, spike_marks, time
local event_log = KEYS[1]
local attempts, failures, least, first_threshold = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), 4
local SYSTEM, METRIC, LONGEST_MS = '__system__', 'auth_failure_rate', 86400000

local tag = keys.tag_of(event_log)
local now = time.now_ms()
local spikes, reply = {}, { 'CHECKED' }

for i = first_threshold, #ARGV, 2 do
  local threshold, window_s = ARGV[i], ARGV[i + 1]
  local failed = failures + rate_window.count_in_window(tag, SYSTEM, 'auth_failed', tonumber(window_s) * 1000, now)
  local tried = attempts + rate_window.count_in_window(tag, SYSTEM, 'auth', tonumber(window_s) * 1000, now)
  -- A damaged counter must not make more failures than attempts.
  local figures = failed >= least
    and spike_marks.spike_of(tag, SYSTEM, METRIC, threshold, window_s, failed, math.max(failed, tried))
  if figures then
    spikes[#spikes + 1] = { threshold, window_s, figures }
  end
end
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
if attempts > 0 then
  rate_window.add_to_rate(tag, SYSTEM, 'auth', now, ARGV[1], LONGEST_MS)
end
if failures > 0 then
  rate_window.add_to_rate(tag, SYSTEM, 'auth_failed', now, ARGV[2], LONGEST_MS)
end
for _, spike in ipairs(spikes) do
  local threshold, window_s, figures = unpack(spike)
  spike_marks.remember_spike(tag, SYSTEM, METRIC, threshold, window_s)
  event_writer.append_event(tag, 'api_key.auth_failure_rate_spike', SYSTEM, nil, { actor = 'system' }, figures)
  reply[#reply + 1], reply[#reply + 2] = threshold, window_s
end
return reply
