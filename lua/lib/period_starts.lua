-- period_starts: gives a budget a period. lua/lib/period.lua describes the fields.
-- @include extras, keys, time
--
-- A shorter period would only make many rollovers of little use.
local SHORTEST_MS = 60000

-- The period between two instants in ms, where an empty start means now, or nil if the end is empty. The second value
-- is the reason why there can be no such period: ENDED, NOT_BEGUN or TOO_SHORT.
local function new_period(tag, starts, ends, now)
  if ends == '' then
    return nil
  end
  starts = starts == '' and time.ms_text(now) or starts
  if tonumber(ends) <= now then
    return nil, 'ENDED'
  elseif tonumber(starts) > now then
    return nil, 'NOT_BEGUN'
  elseif tonumber(ends) - tonumber(starts) < SHORTEST_MS then
    return nil, 'TOO_SHORT'
  end
  -- Fails before the first write if the index is damaged.
  redis.call('ZCARD', keys.period_index(tag))
  return { starts = starts, ends = ends }
end

-- Writes the period, if there is one. `allocated` is the allocation of the periods to come, or nil to leave it as it
-- is.
local function set_period(tag, key, unit, scope, period, allocated)
  if not period then
    return
  end
  redis.call('HSET', key, 'period_start', period.starts, 'period_end', period.ends)
  extras.mark_extras(key)
  if allocated then
    redis.call('HSET', key, 'period_allocated', allocated)
  end
  redis.call('ZADD', keys.period_index(tag), period.ends, scope .. ' ' .. unit)
end

-- The boundaries after an instant, of those in `texts` from `first` on.
local function boundaries_after(texts, first, instant)
  local following = {}
  for i = first, #texts do
    if tonumber(texts[i]) > instant then
      following[#following + 1] = texts[i]
    end
  end
  return following
end

-- Writes the boundaries after that of the current period. They are planned again before half of them have passed.
local function set_boundaries(tag, key, unit, scope, following)
  redis.call('HSET', key, 'boundaries', table.concat(following, ','))
  redis.call('ZADD', keys.period_plans(tag), following[math.ceil(#following / 2)] or 0, scope .. ' ' .. unit)
end

return {
  boundaries_after = boundaries_after, new_period = new_period, set_boundaries = set_boundaries,
  set_period = set_period,
}
