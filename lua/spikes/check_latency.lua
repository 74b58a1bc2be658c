#!lua
-- check_latency: count how long an operation took on all instances, and emit an event if its 99th percentile exceeds
-- the threshold.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   announced      string that lives for a window after an event
-- ARGV[1]   operation      an operation of the protocol
-- ARGV[2]   threshold_ms   above it the event is emitted
-- ARGV[3]   window_s       window of the percentile
-- ARGV[4]   least          requests in the window below which it is not judged
-- ARGV[...] for each bucket, the fastest first: its upper bound in ms, empty for the last, and the requests not counted
--           yet
-- RETURNS   QUIET | EMITTED p99_ms:int
-- BOUND     15 buckets, 360 counters for each
-- EMITS     system.high_latency
-- @include  event_writer, keys, rate_window, time
local event_log, announced = KEYS[1], KEYS[2]
local operation, threshold_ms, window_s, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local first_bucket = 5
local SYSTEM = '__system__'

local tag = keys.tag_of(event_log)
local now = time.now_ms()
local window_ms = window_s * 1000

local function kind_of(bucket)
  return operation .. ' ' .. bucket
end

-- The percentile by linear interpolation in its bucket, as Prometheus estimates it. In the last bucket it is that
-- bucket's lower bound.
local function percentile(buckets, rank)
  local lower, seen = 0, 0
  for _, bucket in ipairs(buckets) do
    if seen + bucket.number >= rank and bucket.number > 0 then
      return bucket.bound and lower + (bucket.bound - lower) * (rank - seen) / bucket.number or lower
    end
    lower, seen = bucket.bound or lower, seen + bucket.number
  end
  return lower
end

local buckets, total = {}, 0
for i = first_bucket, #ARGV, 2 do
  local number = tonumber(ARGV[i + 1]) + rate_window.count_in_window(tag, SYSTEM, kind_of(ARGV[i]), window_ms, now)
  buckets[#buckets + 1] = { bound = tonumber(ARGV[i]), number = number }
  total = total + number
end
local p99_ms = percentile(buckets, total * 0.99)
local is_slow = total >= least and p99_ms > threshold_ms and redis.call('EXISTS', announced) == 0
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
for i = first_bucket, #ARGV, 2 do
  if ARGV[i + 1] ~= '0' then
    rate_window.add_to_rate(tag, SYSTEM, kind_of(ARGV[i]), now, ARGV[i + 1], window_ms)
  end
end
if not is_slow then
  return { 'QUIET' }
end
redis.call('SET', announced, '1', 'PX', time.ms_text(window_ms))
event_writer.append_event(tag, 'system.high_latency', SYSTEM, nil, { actor = 'system' },
  { 'component', 'api', 'message', 'the 99th percentile of ' .. operation .. ' exceeds the threshold', 'severity',
  'warning',
    'operation', operation, 'p99_ms', time.ms_text(p99_ms), 'threshold_ms', time.ms_text(threshold_ms),
    'window_seconds', time.ms_text(window_s), 'sample_count', time.ms_text(total) })
return { 'EMITTED', time.ms_text(p99_ms) }
