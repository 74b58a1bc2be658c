#!lua
-- check_rates: emit the events of a tenant's denial and expiry rates that exceed a threshold.
--
-- KEYS[1]   event_log          stream
-- KEYS[2]   reservation_index  sorted set, the tenant's reservations by creation time
-- KEYS[3]   rates_due          set of tenants to look at
-- ARGV[1]   tenant             whose rates
-- ARGV[2]   least              denials or expirations below which a rate is not judged
-- ARGV[...] for each threshold: denial_rate or expiry_rate, the threshold as a fraction, and the window in seconds
-- RETURNS   CHECKED emitted(metric threshold window_s)*
-- BOUND     20 thresholds, 360 counters for each
-- EMITS     reservation.denial_rate_spike, reservation.expiry_rate_spike
-- @include  event_writer, keys, rate_window, spike_marks, time
--
-- A denial rate is the fraction of attempts that were denied: of the denials and the reservations made in the window.
-- An expiry rate is the expirations for each reservation made in the window, at most 1.
local event_log, reservation_index, rates_due = KEYS[1], KEYS[2], KEYS[3]
local tenant, least, first_threshold = ARGV[1], tonumber(ARGV[2]), 3
local KINDS = { denial_rate = 'denied', expiry_rate = 'expired' }
local ORIGIN = { actor = 'system' }

local tag = keys.tag_of(event_log)
local now = time.now_ms()
local counts, spikes, reply = {}, {}, { 'CHECKED' }

-- How many in the window, and of how many.
local function counts_of(metric, window_s)
  local name = metric .. window_s
  if not counts[name] then
    local number, from_ms = rate_window.count_in_window(tag, tenant, KINDS[metric], tonumber(window_s) * 1000, now)
    local made = redis.call('ZCOUNT', reservation_index, from_ms, '+inf')
    counts[name] = { number, metric == 'denial_rate' and number + made or math.max(number, made) }
  end
  return counts[name][1], counts[name][2]
end

for i = first_threshold, #ARGV, 3 do
  local metric, threshold, window_s = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local number, total = counts_of(metric, window_s)
  local figures = number >= least and spike_marks.spike_of(tag, tenant, metric, threshold, window_s, number, total)
  if figures then
    spikes[#spikes + 1] = { metric, threshold, window_s, figures }
  end
end
redis.call('SCARD', rates_due)
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
redis.call('SREM', rates_due, tenant)
for _, spike in ipairs(spikes) do
  local metric, threshold, window_s, figures = unpack(spike)
  spike_marks.remember_spike(tag, tenant, metric, threshold, window_s)
  if metric == 'denial_rate' then
    event_writer.append_event(tag, 'reservation.denial_rate_spike', tenant, nil, ORIGIN, figures)
  else
    event_writer.append_event(tag, 'reservation.expiry_rate_spike', tenant, nil, ORIGIN, figures)
  end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = metric, threshold, window_s
end
return reply
