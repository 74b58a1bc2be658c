-- sweep_figures: how many entries of an index of deadlines are due, and since when.
-- @include keys, time
local function first_score(index, from)
  return redis.call('ZRANGEBYSCORE', index, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
end

-- The number of due entries, and the oldest one's deadline, or '' if there are none.
local function due_count(index, now)
  local due = redis.call('ZCOUNT', index, '-inf', '(' .. time.ms_text(now))
  return due, due > 0 and first_score(index, '-inf') or ''
end

-- What awaits an operator, as texts: the number of reservations in quarantine, the number of holds that await cleanup,
-- and the oldest one's deadline. If these keys are damaged, the sweep must not stop.
local function set_aside(tag, now)
  local quarantined = redis.pcall('HLEN', keys.quarantine(tag))
  local readable, awaiting, oldest = pcall(due_count, keys.cleanup_index(tag), now)
  return tostring(tonumber(quarantined) or 0), readable and tostring(awaiting) or '0', readable and oldest or ''
end

return { due_count = due_count, first_score = first_score, set_aside = set_aside }
