#!lua
-- count_rates: count the denials and expirations that a partition's event log has gained, by tenant and time.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   rates_cursor   string, the last entry that was counted
-- KEYS[3]   rates_due      set of tenants whose counts have grown since check_rates looked at them
-- ARGV[1]   examine        entries that a run looks at, at most
-- ARGV[2]   longest_ms     age from which an entry is not counted: the longest window
-- ARGV[3]   due            tenants to return, at most
-- RETURNS   more:flag counted:int tenants(tenant)*
-- BOUND     examine entries, 256 KiB of entries, due tenants
-- EMITS     nothing
-- @include  keys, rate_window, stream_walk, time
--
-- The cursor moves in the run that counts, so however many instances call this, each entry counts once.
local event_log, rates_cursor, rates_due = KEYS[1], KEYS[2], KEYS[3]
local examine, longest_ms, due = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local KINDS = { ['reservation.denied'] = 'denied', ['reservation.expired'] = 'expired' }
local TENANT, KIND, SECOND, NUMBER = 1, 2, 3, 4

local tag = keys.tag_of(event_log)
local oldest = time.now_ms() - longest_ms
local cursor = redis.call('GET', rates_cursor)
local counted_ms = cursor and tonumber(string.match(cursor, '^(%d+)%-%d+$'))
local start = counted_ms and counted_ms >= oldest and '(' .. cursor or time.ms_text(oldest)
local groups, order, counted = {}, {}, 0

local last, _, more = stream_walk.walk_stream('XRANGE', event_log, start, '+', examine, function(entry)
  local kind, tenant
  for i = 1, #entry[2], 2 do
    local name, value = entry[2][i], entry[2][i + 1]
    if name == 'ty' then
      kind = KINDS[value]
    elseif name == 'tn' then
      tenant = value
    elseif name == 'va' or name == 'cl' then
      kind = nil
    end
  end
  if kind and tenant then
    local second = math.floor(tonumber(string.match(entry[1], '^%d+')) / 1000)
    local name = kind .. ' ' .. time.ms_text(second) .. ' ' .. tenant
    if not groups[name] then
      groups[name] = { tenant, kind, second, 0 }
      order[#order + 1] = groups[name]
    end
    groups[name][NUMBER] = groups[name][NUMBER] + 1
    counted = counted + 1
  end
  return false, 0
end)
redis.call('SCARD', rates_due)

-- Nothing is refused below this line.
if last then
  redis.call('SET', rates_cursor, last)
end
for _, group in ipairs(order) do
  rate_window.add_to_rate(tag, group[TENANT], group[KIND], group[SECOND] * 1000, time.ms_text(group[NUMBER]),
    longest_ms)
  redis.call('SADD', rates_due, group[TENANT])
end
return { more and '1' or '0', time.ms_text(counted), unpack(redis.call('SRANDMEMBER', rates_due, due)) }
