-- action_counters: how many actions were reserved in a window, for the quotas of policies. WINDOW MODEL and PER_RUN
-- COUNTER LIFECYCLE of cycles-action-kinds-v0.1.26.
-- @include keys, time
--
-- The counters of a tenant's day are one hash, and those of a run another, so that a reserve reads and writes all its
-- counters at once, and that none outlives its use for long. A field is `<scope>|<window>|<kind>`, or `__risk__:<risk
-- class>` for the kind. Its value is `bucket|used|last_ms|limit|policy_id|told|ttl_ms`: the number of the minute, hour
-- or day that it counts, or for a run when the counter began, which distinguishes it from an earlier one of the same
-- name; the limit and policy that counted last; and the thresholds that events have reported.
-- The counters of minutes and hours are used again for the next minute or hour.
--
-- Lists need the fields in order and a few at a time, which a hash cannot give. So each day has a sorted set of its
-- fields, and each tenant one of `<run>|<field>`, all scores 0. A counter is entered when it is new, so other reserves
-- do not pay for them.
local DAY_MS = 86400000
local WINDOWS = {
  per_run = { code = 'r' },
  per_minute_tumbling = { code = 'm', ms = 60000, date_length = 16 },
  per_hour_tumbling = { code = 'h', ms = 3600000, date_length = 13 },
  per_day_tumbling = { code = 'd', ms = DAY_MS, date_length = 10 },
  per_tenant_per_day = { code = 't', ms = DAY_MS, date_length = 10 },
}
local NAME_OF_CODE = { r = 'per_run', m = 'per_minute_tumbling', h = 'per_hour_tumbling', d = 'per_day_tumbling',
  t = 'per_tenant_per_day' }

-- The bucket that a calendar window has at an instant, as `YYYY-MM-DDTHH:MM` or the start of it, in UTC.
local function date_of(window, bucket)
  local at_ms = bucket * window.ms
  local days, minutes = math.floor(at_ms / DAY_MS), math.floor(at_ms % DAY_MS / 60000)
  -- Years begin in March here, so that a leap day is the last one of its year. An era has 400 years.
  local era, day_of_era = math.floor((days + 719468) / 146097), (days + 719468) % 146097
  local leap_days = math.floor(day_of_era / 1460) - math.floor(day_of_era / 36524) + math.floor(day_of_era / 146096)
  local year_of_era = math.floor((day_of_era - leap_days) / 365)
  local day_of_year = day_of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local month = math.floor((5 * day_of_year + 2) / 153)
  local day = day_of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  local text = string.format('%04d-%02d-%02dT%02d:%02d', year, month, day, math.floor(minutes / 60), minutes % 60)
  return string.sub(text, 1, window.date_length)
end

-- What a value has behind the time at which it last counted. Few calls change it.
local function tail_of(counter)
  return '|' .. time.ms_text(counter.limit) .. '|' .. counter.policy .. '|' .. counter.told .. '|'
    .. (counter.ttl and time.ms_text(counter.ttl) or '')
end

local function counter_text(counter)
  return counter.bucket_text .. '|' .. time.ms_text(counter.used) .. '|' .. time.ms_text(counter.last)
    .. tail_of(counter)
end

-- The counter with this value, or nil for a value that is damaged.
local function parse_counter(text)
  local bucket, used, last, limit, policy, told, ttl =
    string.match(text, '^(%d+)|(%d+)|(%d+)|(%d+)|([^|]*)|([^|]*)|(%d*)$')
  return bucket
    and { bucket = tonumber(bucket), bucket_text = bucket, used = tonumber(used), last = tonumber(last),
    limit = tonumber(limit), policy = policy, told = told, ttl = tonumber(ttl) }
end

-- Whether the counter still counts at this time.
local function is_current(window, counter, now)
  if window.ms then
    return counter.bucket == math.floor(now / window.ms)
  end
  return counter.last + (counter.ttl or 0) > now
end

-- The scope, window and kind that a field names; a damaged one has no window. A scope has no bar.
local function parts_of_field(field)
  local scope, code, kind = string.match(field, '^([^|]*)|([^|]*)|(.*)$')
  return scope, NAME_OF_CODE[code], kind
end

-- What a list shows of a counter: the key of its window, how often, of how many, by which policy, when last, and when
-- it lapses.
local function counter_figures(window, counter, run)
  return { window.ms and date_of(window, counter.bucket) or run, time.ms_text(counter.used),
    time.ms_text(counter.limit), counter.policy,
    time.ms_text(counter.last), time.ms_text(window.ms and (counter.bucket + 1) * window.ms
    or counter.last + (counter.ttl or 0)) }
end

-- The correlation id of all that is told of one counter. `name` is its kind or risk class.
local function counter_correlation(tenant_id, scope, name, window_name, window_key)
  return 'quota:' .. redis.sha1hex(table.concat({ tenant_id, scope, name, window_name, window_key }, '\31'))
end

-- The hash of the day's counters.
local function day_counters_key(tag, tenant_id, now)
  return keys.action_counters(tag, tenant_id, time.ms_text(math.floor(now / DAY_MS)))
end

-- A run's hash lapses with its counters. Its entries in the indexes go when further runs begin, or when the tenant's
-- indexes are trimmed.
local RUNS_CHECKED, COUNTERS_FORGOTTEN = 2, 100

-- Removes a lapsed run from the indexes, or a part of it if it had many counters. Returns how many entries that were.
local function forget_run(tag, tenant_id, run)
  local index = keys.run_counter_index(tag, tenant_id)
  -- The character after a bar is a brace, so these are the members that begin with the run and a bar.
  local members = redis.pcall('ZRANGEBYLEX', index, '[' .. run .. '|', '(' .. run .. '}', 'LIMIT', 0,
    COUNTERS_FORGOTTEN)
  if #members > 0 then
    redis.call('ZREM', index, unpack(members))
  end
  if #members == COUNTERS_FORGOTTEN then
    return #members
  end
  redis.call('ZREM', keys.run_index(tag, tenant_id), run)
  return #members + 1
end

-- Checks the first runs that should have lapsed: forgets those that have, and corrects the entries of the others.
-- Returns how many entries it examined, and how many of them it removed.
local function forget_lapsed_runs(tag, tenant_id, now)
  local index, examined, removed = keys.run_index(tag, tenant_id), 0, 0
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', time.ms_text(now), 'LIMIT', 0, RUNS_CHECKED)) do
    local key = keys.run_counters(tag, tenant_id, run)
    local ends_at = redis.call('PEXPIRETIME', key)
    local count = ends_at < 0 and forget_run(tag, tenant_id, run) or 0
    if count == 0 then
      -- By a test clock it may have lapsed, though Redis still keeps it: it must not come up again in this walk.
      redis.call('ZADD', index, time.ms_text(math.max(ends_at, now + 1)), run)
    end
    examined, removed = examined + math.max(1, count), removed + count
  end
  return examined, removed
end

-- Keeps the hash of a run for at least this long, and enters a new run into the index.
local function keep_run(tag, key, tenant_id, run, now, ttl_ms, is_new)
  local lapses_ms = time.ms_text(ttl_ms)
  -- Another counter of the run may live longer.
  if redis.call('PEXPIRE', key, lapses_ms, 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, lapses_ms)
  end
  if is_new then
    forget_lapsed_runs(tag, tenant_id, now)
    redis.call('ZADD', keys.run_index(tag, tenant_id), 'GT', time.ms_text(now + ttl_ms), run)
  end
end

-- The text in a hold's record of the counters of its run: the run, then when each counter began, and its field.
local BETWEEN = '\31'

-- Takes an ended hold off the counters of its run, unless they began anew meanwhile. Cannot fail.
local function uncount_run(tag, tenant_id, text)
  if not text or not tenant_id then
    return
  end
  local parts = {}
  for part in string.gmatch(text .. BETWEEN, '([^' .. BETWEEN .. ']*)' .. BETWEEN) do
    parts[#parts + 1] = part
  end
  local key = keys.run_counters(tag, tenant_id, parts[1])
  for i = 2, #parts - 1, 2 do
    local value = redis.pcall('HGET', key, parts[i + 1])
    local counter = type(value) == 'string' and parse_counter(value)
    if counter and counter.used > 0 and time.ms_text(counter.bucket) == parts[i] then
      counter.used = counter.used - 1
      redis.call('HSET', key, parts[i + 1], counter_text(counter))
    end
  end
end

return {
  DAY_MS = DAY_MS, WINDOWS = WINDOWS, counter_correlation = counter_correlation,
  counter_figures = counter_figures, counter_text = counter_text, date_of = date_of,
  day_counters_key = day_counters_key, forget_lapsed_runs = forget_lapsed_runs, is_current = is_current,
  keep_run = keep_run, parse_counter = parse_counter, parts_of_field = parts_of_field, tail_of = tail_of,
  uncount_run = uncount_run,
}
