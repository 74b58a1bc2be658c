-- spike_marks: what the events of rates that exceed a threshold have in common.
-- @include keys, time
--
-- An event is emitted once per window: a key remembers it, and lapses when the window is over.
local function told_key(tag, owner, metric, threshold, window_s)
  return keys.rate_told(tag, owner, metric .. ':' .. threshold .. ':' .. window_s)
end

-- The figures of the event if `count` of `total` exceed the threshold and no event of this window has said so, or nil.
local function spike_of(tag, owner, metric, threshold, window_s, count, total)
  if count == 0 or count / total <= tonumber(threshold)
    or redis.call('EXISTS', told_key(tag, owner, metric, threshold, window_s)) == 1 then
    return nil
  end
  return { 'metric', metric, 'current_rate', string.format('%.4f', count * 60 / tonumber(window_s)), 'threshold_rate',
    threshold, 'window_seconds', window_s, 'sample_count', time.ms_text(count), 'current_fraction',
    string.format('%.4f', count / total) }
end

local function remember_spike(tag, owner, metric, threshold, window_s)
  redis.call('SET', told_key(tag, owner, metric, threshold, window_s), '1', 'PX',
    time.ms_text(tonumber(window_s) * 1000))
end

return { remember_spike = remember_spike, spike_of = spike_of }
