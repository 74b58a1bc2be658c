-- kept_counters: the counters that the calls of a run read and change. They stay in memory between runs, so that only
-- those that something else has changed are parsed again.
-- @include action_counters, keys, run_time, time
--
-- A `hash` is what is known of a hash of counters: its `key`, `tenant` and `run` (nil for that of a day), and its
-- `counters` by field. A counter has what parse_counter returns, and
--   `text`     its value in Redis, false if there is none, nil if it must be parsed again; every run reads it again
--   `minute`   when its window was last compared with the time
--   `tail`     the end of its value, from its limit on, for those `terms`
--   `is_new`   whether it is in no index yet
-- A part is a list of entries that count in one hash, with the `fields`, `limits`, `crossings` and `ttls` of their
-- counters: see lua/ledger/lib/action_quota.lua. It gets `hash`, `counters` and `has_new` here, the `command` that
-- writes them, and `terms`: its limits and times to live under one policy, as a table to compare.
--
-- INVARIANT: between runs, a counter in memory says what its `text` says. While a run counts, `is_ahead` is true; if it
-- still is when the next run begins, the former has failed, and all is parsed again. test/property/groups.test.ts and
-- test/lua/failed-runs.test.ts check it.
--
-- Why in memory and by place: when each run parsed its counters and looked at each by itself, four quotas cost a
-- reserve 24 % alone in a run and 12 % with 16 in a run, instead of 14 % and 9 %
-- (docs/adr/0021-quotas-are-counted-with-the-reserve.md).
local MINUTE_MS = 60000
-- Of a day's hash, from its last new counter on.
local DAY_TTL_MS = 90000000

local COUNTERS_KEPT = 1000
local kept, kept_count = {}, 0
local turns = 0

-- The number of a run that counts.
local function turn_of(group)
  if not group.turn then
    turns = turns + 1
    group.turn = turns
    if kept_count > COUNTERS_KEPT then
      kept, kept_count = {}, 0
    end
  end
  return group.turn
end

-- The hash with this key. `run` is nil for that of a day.
local function hash_of(key, tenant_id, run, turn)
  local hash = kept[key]
  if not hash then
    hash = { key = key, tenant = tenant_id, run = run, counters = {} }
    kept[key] = hash
  end
  if hash.turn ~= turn and hash.is_ahead then
    for _, counter in pairs(hash.counters) do
      counter.text = nil
    end
    hash.is_ahead = false
  end
  hash.turn = turn
  return hash
end

local function place_part(part, hash)
  part.hash, part.counters, part.command = hash, {}, { 'HSET', hash.key }
  for i, field in ipairs(part.fields) do
    if not hash.counters[field] then
      hash.counters[field], kept_count = {}, kept_count + 1
    end
    part.counters[i], part.command[2 * i + 1], part.command[2 * i + 2] = hash.counters[field], field, ''
  end
end

local function set_counter(counter, figures, is_new)
  counter.bucket, counter.bucket_text, counter.used, counter.last = figures.bucket, figures.bucket_text, figures.used,
    figures.last
  counter.told, counter.ttl, counter.is_new, counter.terms = figures.told, figures.ttl, is_new, nil
end

-- Parses a counter again if its value in Redis has changed, and begins it anew if its window is over. Calls of this run
-- may have changed it since: then Redis still has the text that they began with.
local function bring_up_to_date(hash, counter, entry, text, now)
  if text and counter.text ~= text then
    set_counter(counter, action_counters.parse_counter(text)
      or error('corrupt action counter ' .. entry.field .. ' in ' .. hash.key))
  end
  local window = entry.window
  if not text and counter.text ~= text or not action_counters.is_current(window, counter, now) then
    local bucket = window.ms and math.floor(now / window.ms) or now
    set_counter(counter, { bucket = bucket, bucket_text = time.ms_text(bucket), used = 0, last = now, told = '' },
      not text)
  end
  counter.text = text
end

-- Reads the counters of a part, as the calls before this one left them.
local function read_counters(group, part, key, tenant_id, run, now)
  local hash, minute = hash_of(key, tenant_id, run, group.turn), now - now % MINUTE_MS
  if part.hash ~= hash then
    place_part(part, hash)
  end
  local texts, counters = redis.call('HMGET', key, unpack(part.fields)), part.counters
  for i = 1, #texts do
    local counter, text = counters[i], texts[i]
    -- No calendar window ends within a minute.
    if counter.text ~= text or counter.minute ~= minute or run then
      bring_up_to_date(hash, counter, part[i], text, now)
      counter.minute = minute
    end
  end
end

-- Whether a counter of the part is at its limit; then whether one is new, or reaches the threshold of a rule by one
-- action.
local function limits_of(part)
  local counters, limits, crossings, has_new, crosses = part.counters, part.limits, part.crossings, false, false
  for i = 1, #counters do
    local counter = counters[i]
    local used = counter.used
    if used >= limits[i] then
      return true
    end
    has_new = has_new or counter.is_new
    crosses = crosses or used + 1 == crossings[i]
  end
  part.has_new = has_new
  return false, has_new or crosses
end

-- Makes the counter's tail for a part.
local function set_terms(counter, part, i)
  counter.limit, counter.policy, counter.ttl = part.limits[i], part.policy, part.hash.run and part.ttls[i]
  counter.tail, counter.terms = action_counters.tail_of(counter), part.terms
end

-- Counts one action on each counter of a part, after limits_of.
local function count_one(group, part, policy_id)
  local hash, counters = part.hash, part.counters
  if part.policy ~= policy_id then
    part.policy, part.terms = policy_id, {}
  end
  if part.turn ~= hash.turn then
    part.turn, hash.is_ahead = hash.turn, true
    group.counted = group.counted or {}
    group.counted[#group.counted + 1] = part
  end
  local terms = part.terms
  for i = 1, #counters do
    local counter = counters[i]
    counter.used = counter.used + 1
    if counter.terms ~= terms then
      set_terms(counter, part, i)
    end
  end
end

-- The count of an entry, and what else is known of its counter.
local function count_of(entry)
  local counter = entry.part.counters[entry.index]
  return counter.used, counter
end

local function note_told(entry, threshold)
  local counter = entry.part.counters[entry.index]
  counter.told = counter.told == '' and threshold or counter.told .. ',' .. threshold
  counter.tail = action_counters.tail_of(counter)
end

-- Enters new counters into the index of their day or of the tenant's runs. A damaged index must not end the script in
-- the middle of its change.
local function index_counters(index, entries)
  local command = { 'ZADD', index }
  for _, entry in ipairs(entries) do
    command[#command + 1], command[#command + 2] = '0', entry
  end
  redis.pcall(unpack(command))
end

-- Enters the new counters of a day into its index, and keeps their hash as long as they live.
local function enter_day(tag, hash, added, now)
  local index = keys.action_counter_index(tag, hash.tenant, time.ms_text(math.floor(now / action_counters.DAY_MS)))
  local kept_ms = time.ms_text(DAY_TTL_MS)
  redis.call('PEXPIRE', hash.key, kept_ms)
  index_counters(index, added)
  redis.pcall('PEXPIRE', index, kept_ms)
end

-- The same for a run, whose time to live begins anew whenever it counts.
local function enter_run(tag, hash, added, now, ttl_ms)
  action_counters.keep_run(tag, hash.key, hash.tenant, hash.run, now, ttl_ms, added ~= nil)
  if added then
    index_counters(keys.run_counter_index(tag, hash.tenant), added)
  end
end

-- The new counters of a part, as the indexes have them, or nil.
local function take_new(part)
  local run, added = part.hash.run, nil
  for i, counter in ipairs(part.counters) do
    if counter.is_new then
      added = added or {}
      added[#added + 1], counter.is_new = run and run .. '|' .. part.fields[i] or part.fields[i], false
    end
  end
  return added
end

-- Notes when the counters of a run have counted, and returns the longest time to live of them.
local function keep_times(part, now)
  local ttl_ms = 0
  for _, counter in ipairs(part.counters) do
    counter.last, ttl_ms = now, math.max(ttl_ms, counter.ttl)
  end
  return ttl_ms
end

-- Texts of numbers below 1,000, which are kept because formatting one takes five times as long.
local PLAIN, PADDED = {}, {}

local function kept_text(texts, format, number)
  local text = texts[number]
  if not text then
    text = string.format(format, number)
    texts[number] = text
  end
  return text
end

-- A count is at most 100,000, the highest limit that a rule may have.
local function count_text(count)
  if count < 1000 then
    return kept_text(PLAIN, '%d', count)
  end
  local low = count % 1000
  return kept_text(PLAIN, '%d', (count - low) / 1000) .. kept_text(PADDED, '%03d', low)
end

local function write_texts(part, last_text)
  local counters, command = part.counters, part.command
  for i = 1, #counters do
    local counter = counters[i]
    local text = counter.bucket_text .. '|' .. count_text(counter.used) .. last_text .. counter.tail
    counter.text, command[2 * i + 2] = text, text
  end
  redis.call(unpack(command))
end

local function write_part(tag, part, now, last_text)
  local hash = part.hash
  write_texts(part, last_text)
  local added = part.has_new and take_new(part) or nil
  if hash.run then
    enter_run(tag, hash, added, now, keep_times(part, now))
  elseif added then
    enter_day(tag, hash, added, now)
  end
end

-- Writes what the calls of a run have counted. A counter of several parts is written with each.
local function write_counters(group, tag)
  local now, last_text = run_time.now(group), '|' .. run_time.now_text(group)
  for _, part in ipairs(group.counted) do
    write_part(tag, part, now, last_text)
  end
  for _, part in ipairs(group.counted) do
    part.hash.is_ahead = false
  end
  group.turn, group.counted = nil, nil
end

return {
  count_of = count_of, count_one = count_one, limits_of = limits_of, note_told = note_told,
  read_counters = read_counters, turn_of = turn_of, write_counters = write_counters,
}
