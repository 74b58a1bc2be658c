#!lua flags=no-writes
-- count_events: how many events of each type a partition's log has, by time, newest first, a bounded stretch of it at a
-- time.
--
-- KEYS[1]   event_log      stream
-- ARGV[1]   start          entry to start with, or '(' and the entry to start behind
-- ARGV[2]   stop           entry to end with, likewise
-- ARGV[3]   examine        entries that a run looks at, at most
-- ARGV[4]   slot_ms        events are counted together whose times divided by it are the same
-- ARGV[5]   keep           denials, and expirations, that a run names at most
-- RETURNS   next_start? newest? examined:int counts_count counts(slot:int type reason? events:int)* recent(entry_id
--           type)*
-- BOUND     examine entries, 256 KiB of entries
-- EMITS     nothing
-- @include  lists, stream_walk, time
--
-- There is no next_start at the end. A reason is that of a denial.
local event_log = KEYS[1]
local start, stop, examine, slot_ms, keep = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local NAMED = { ['reservation.denied'] = 0, ['reservation.expired'] = 0 }

local newest = ''
local groups, order, recent = {}, {}, {}

local function visit(entry)
  local event_type, reason = 'custom.unknown', ''
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'ty' then
      event_type = entry[2][i + 1]
    elseif entry[2][i] == 'reason_code' then
      reason = entry[2][i + 1]
    end
  end
  newest = newest ~= '' and newest or entry[1]
  if event_type ~= 'reservation.denied' then
    reason = ''
  end
  local slot = time.ms_text(math.floor(tonumber(string.match(entry[1], '^%d+')) / slot_ms))
  local name = slot .. ' ' .. event_type .. ' ' .. reason
  if not groups[name] then
    groups[name] = { slot, event_type, reason, 0 }
    order[#order + 1] = groups[name]
  end
  groups[name][4] = groups[name][4] + 1
  local named = NAMED[event_type]
  if named and named < keep then
    NAMED[event_type] = named + 1
    recent[#recent + 1], recent[#recent + 2] = entry[1], event_type
  end
  return false, 0
end

local last, examined, more = stream_walk.walk_stream('XREVRANGE', event_log, start, stop, examine, visit)
local reply = { more and '(' .. last or '', newest, time.ms_text(examined), time.ms_text(#order) }
for _, group in ipairs(order) do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = group[1], group[2], group[3]
  reply[#reply + 1] = time.ms_text(group[4])
end
return lists.append_all(reply, recent)
