-- kept_counters: the counters that the calls of a run read and change. They stay in memory between runs, so that only those that something
-- else has changed are parsed again.
-- @include action_counters, keys, time
--
-- What nearly every call needs of the counters of a hash is in lists, indexed by the place of a counter, because looking up a field by name
-- costs twice as much: `used`; `texts`, the values in Redis, which every run reads again; `heads` and `tails`, what a value has before the
-- count and after the time; and `stamps`, which part counted last. `counters` has everything else that was parsed.
--
-- A part is a list of entries that count in one hash, with the `fields`, `limits`, `crossings` and `ttls` of their counters: see
-- lua/ledger/lib/action_quota.lua. It gets `hash`, `places` and `command` here. While its `version` is that of the hash, only the part itself has
-- changed its counters, and its next `quiet` actions reach no limit and no threshold. `has_new` says whether one of them is in no index.
local MINUTE_MS = 60000
-- Of a day's hash, from its last new counter on.
local DAY_TTL_MS = 90000000

local COUNTERS_KEPT = 1000
local kept, kept_count = {}, 0
local turns = 0

-- The number of a run that counts. `group.counted` are the parts that it has counted on.
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
    hash = { key = key, tenant = tenant_id, run = run, place_of = {}, size = 0, epoch = 0, version = 0, used = {}, texts = {}, heads = {},
      tails = {}, stamps = {}, counters = {} }
    kept[key] = hash
  end
  if hash.turn ~= turn then
    if hash.is_ahead then
      -- A run has failed before it wrote what it counted.
      hash.texts, hash.is_ahead = {}, false
    end
    hash.turn = turn
  end
  return hash
end

local function place_part(part, hash)
  part.hash, part.places, part.command, part.epoch, part.version = hash, {}, { 'HSET', hash.key }, nil, nil
  for i, field in ipairs(part.fields) do
    local place = hash.place_of[field]
    if not place then
      place = hash.size + 1
      hash.place_of[field], hash.size, kept_count = place, place, kept_count + 1
    end
    part.places[i], part.command[2 * i + 1], part.command[2 * i + 2] = place, field, ''
  end
end

local function set_counter(hash, place, counter)
  hash.counters[place], hash.used[place], hash.heads[place], hash.stamps[place] = counter, counter.used, counter.bucket_text .. '|', nil
  hash.version = hash.version + 1
end

-- Brings a counter up to date with its value in Redis, and begins it anew where its window is over. Calls of this run may have changed it
-- since: then Redis still holds the text that they began with.
local function bring_up_to_date(hash, place, entry, value)
  local counter, window, now = hash.counters[place], entry.window, hash.now
  if value ~= hash.texts[place] then
    counter = value and (action_counters.parse_counter(value) or error('corrupt action counter ' .. entry.field .. ' in ' .. hash.key))
    if counter then
      set_counter(hash, place, counter)
    end
  end
  if not counter or not action_counters.is_current(window, counter, now) then
    local bucket = window.ms and math.floor(now / window.ms) or now
    set_counter(hash, place, { is_new = not value, bucket = bucket, bucket_text = time.ms_text(bucket), used = 0, last = now, told = '' })
  end
  hash.texts[place] = value
end

-- Reads the counters of a part, as the calls before this one left them.
local function read_counters(group, part, key, tenant_id, run, now)
  local hash, minute = hash_of(key, tenant_id, run, group.turn), now - now % MINUTE_MS
  if part.hash ~= hash then
    place_part(part, hash)
  end
  hash.now = now
  if hash.minute ~= minute then
    hash.minute, hash.epoch = minute, hash.epoch + 1
  end
  -- No calendar window ends within a minute.
  local may_have_ended = run or part.epoch ~= hash.epoch
  local values, places, texts = redis.call('HMGET', key, unpack(part.fields)), part.places, hash.texts
  for i = 1, #places do
    local place, value = places[i], values[i]
    if may_have_ended or value ~= texts[place] then
      bring_up_to_date(hash, place, part[i], value)
    end
  end
  part.epoch = hash.epoch
end

-- Whether a counter of the part is at its limit; then whether one is new, or reaches the threshold of a rule by one action.
local function limits_of(part)
  local hash = part.hash
  if part.version == hash.version and part.quiet > 0 then
    return false, false
  end
  local used, counters, places, quiet, has_new = hash.used, hash.counters, part.places, math.huge, false
  for i = 1, #places do
    local count, limit, crossing = used[places[i]], part.limits[i], part.crossings[i]
    if count >= limit then
      return true
    end
    quiet = math.min(quiet, limit - count, crossing > count and crossing - count - 1 or quiet)
    has_new = has_new or counters[places[i]].is_new
  end
  part.version, part.quiet, part.has_new = hash.version, has_new and 0 or quiet, has_new
  return false, part.quiet == 0
end

-- Counts one action on each counter of a part, after limits_of.
local function count_one(group, part, policy_id)
  local hash, places = part.hash, part.places
  if part.policy ~= policy_id then
    part.policy, part.stamp = policy_id, {}
  end
  if part.turn ~= hash.turn then
    local counted = group.counted or {}
    group.counted, counted[#counted + 1] = counted, part
    part.turn, hash.is_ahead = hash.turn, true
  end
  local version = hash.version + 1
  hash.version, part.version, part.quiet = version, version, part.quiet - 1
  local used, stamps, stamp = hash.used, hash.stamps, part.stamp
  for i = 1, #places do
    local place = places[i]
    used[place] = used[place] + 1
    if stamps[place] ~= stamp then
      local counter = hash.counters[place]
      counter.limit, counter.policy, counter.ttl = part.limits[i], policy_id, hash.run and part.ttls[i]
      hash.tails[place], stamps[place] = action_counters.tail_of(counter), stamp
    end
  end
end

-- The count of an entry, and what else is known of its counter.
local function count_of(entry)
  local hash, place = entry.part.hash, entry.part.places[entry.index]
  return hash.used[place], hash.counters[place]
end

local function note_told(entry, threshold)
  local hash, place = entry.part.hash, entry.part.places[entry.index]
  local counter = hash.counters[place]
  counter.told = counter.told == '' and threshold or counter.told .. ',' .. threshold
  hash.tails[place] = action_counters.tail_of(counter)
end

-- Enters new counters into the index of their day or of the tenant's runs. A damaged index must not end the script in the middle of its
-- change.
local function index_counters(index, entries)
  local command = { 'ZADD', index }
  for _, entry in ipairs(entries) do
    command[#command + 1], command[#command + 2] = '0', entry
  end
  redis.pcall(unpack(command))
end

-- Enters the new counters of a hash into the indexes, and keeps the hash as long as they live.
local function enter_counters(tag, hash, added, ttl_ms)
  local key, tenant_id = hash.key, hash.tenant
  if hash.run then
    action_counters.keep_run(tag, key, tenant_id, hash.run, hash.now, ttl_ms, added ~= nil)
    if added then
      index_counters(keys.run_counter_index(tag, tenant_id), added)
    end
  elseif added then
    local index = keys.action_counter_index(tag, tenant_id, time.ms_text(math.floor(hash.now / action_counters.DAY_MS)))
    local kept_ms = time.ms_text(DAY_TTL_MS)
    redis.call('PEXPIRE', key, kept_ms)
    index_counters(index, added)
    redis.pcall('PEXPIRE', index, kept_ms)
  end
end

-- The new counters of a part, as the indexes have them.
local function take_new(part)
  local hash, added = part.hash, nil
  for i, place in ipairs(part.places) do
    local counter = hash.counters[place]
    if counter.is_new then
      added = added or {}
      added[#added + 1], counter.is_new = hash.run and hash.run .. '|' .. part.fields[i] or part.fields[i], false
    end
  end
  return added
end

-- Notes when the counters of a run have counted, and returns the longest time to live of them.
local function keep_times(part)
  local hash, ttl_ms = part.hash, 0
  for _, place in ipairs(part.places) do
    local counter = hash.counters[place]
    counter.last, ttl_ms = hash.now, math.max(ttl_ms, counter.ttl)
  end
  return ttl_ms
end

-- Texts of numbers below 1,000, which are kept because formatting one takes five times as long.
local PLAIN, PADDED = {}, {}

local function text_of(texts, format, number)
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
    return text_of(PLAIN, '%d', count)
  end
  local low = count % 1000
  return text_of(PLAIN, '%d', (count - low) / 1000) .. text_of(PADDED, '%03d', low)
end

local function write_part(group, tag, part)
  local hash, places, command = part.hash, part.places, part.command
  local used, texts, heads, tails = hash.used, hash.texts, hash.heads, hash.tails
  local last_text = '|' .. (hash.now == group.now and group.now_text or time.ms_text(hash.now))
  for i = 1, #places do
    local place = places[i]
    local count = used[place]
    local text = heads[place] .. (PLAIN[count] or count_text(count)) .. last_text .. tails[place]
    command[2 * i + 2], texts[place] = text, text
  end
  redis.call(unpack(command))
  if hash.run then
    enter_counters(tag, hash, part.has_new and take_new(part) or nil, keep_times(part))
  elseif part.has_new then
    enter_counters(tag, hash, take_new(part))
  end
end

-- Writes what the calls of a run have counted. A counter of several parts is written with each.
local function write_counters(group, tag)
  local counted = group.counted
  for i = 1, #counted do
    write_part(group, tag, counted[i])
  end
  for i = 1, #counted do
    counted[i].hash.is_ahead = false
  end
  group.turn, group.counted = nil, nil
end

return {
  count_of = count_of, count_one = count_one, limits_of = limits_of, note_told = note_told,
  read_counters = read_counters, turn_of = turn_of, write_counters = write_counters,
}
