#!lua flags=allow-oom
-- trim_event_log: remove events past their retention from a partition's log and its indexes, oldest first.
-- allow-oom: it frees memory.
--
-- KEYS[1]   event_log      stream
-- ARGV[1]   retention_ms   how long an event is kept
-- ARGV[2]   unread_ms      how long an event is kept that the dispatcher has not acknowledged
-- ARGV[3]   limit          maximum events to remove
-- RETURNS   TRIMMED removed:int more:flag held:flag
-- BOUND     limit events, 256 KiB of them
-- EMITS     nothing
-- @include  archived, dispatch_group, entry_order, keys, stream_walk, time
--
-- more is 1 if the limit ended the run. held is 1 if events past their retention wait for the dispatcher.
local event_log = KEYS[1]
local retention_ms, unread_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local tag = keys.tag_of(event_log)
local now = time.redis_ms()

-- The lowest id that the dispatcher still needs. Without a dispatch group, it needs all.
local function first_needed()
  local state = dispatch_group.dispatch_group_state(event_log)
  if not state then
    return '0-0'
  end
  return state.pending > 0 and redis.call('XPENDING', event_log, dispatch_group.DISPATCH_GROUP)[2]
    or stream_walk.id_after(state['last-delivered-id'])
end

local function horizon(age_ms)
  return time.ms_text(math.max(0, now - age_ms)) .. '-0'
end

local function forget(index, from)
  if type(redis.pcall('XTRIM', index, 'MINID', from)) == 'number' and redis.call('XLEN', index) == 0 then
    redis.call('DEL', index)
  end
end

local due, needed, given_up = horizon(retention_ms), first_needed(), horizon(unread_ms)
if entry_order.is_before(needed, given_up) then
  needed = given_up
end
local held = entry_order.is_before(needed, due)
local from = held and needed or due
local indexes = {}
local last, count, more = stream_walk.walk_stream('XRANGE', event_log, '-', '(' .. from, limit, function(entry)
  local fields = entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'tn' then
      indexes[keys.tenant_events(tag, fields[i + 1])] = true
    elseif fields[i] == 'co' then
      indexes[keys.correlated_events(tag, fields[i + 1])] = true
    end
  end
end)
-- Some events past their retention wait for the dispatcher if there are any between what may be removed and what is
-- due.
held = held and #redis.call('XRANGE', event_log, from, '(' .. due, 'COUNT', 1) > 0
if count == 0 then
  return { 'TRIMMED', '0', '0', held and '1' or '0' }
end

-- Nothing is refused below this line.
archived.note_removed(tag, 'events', last)
from = stream_walk.id_after(last)
redis.call('XTRIM', event_log, 'MINID', from)
for index in pairs(indexes) do
  forget(index, from)
end
return { 'TRIMMED', tostring(count), more and '1' or '0', held and '1' or '0' }
