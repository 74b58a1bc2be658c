#!lua flags=no-writes
-- count_expirations: how many expirations a partition's event log has in each slot of a window, a bounded stretch of it
-- at a time.
--
-- KEYS[1]   event_log      stream
-- ARGV[1]   start          entry to start with, or '(' and the entry to start after
-- ARGV[2]   stop           entry to end with
-- ARGV[3]   examine        maximum entries to examine
-- ARGV[4]   from_ms        earliest time of the expiry or quarantine, inclusive, and the start of the first slot
-- ARGV[5]   to_ms          latest, inclusive
-- ARGV[6]   slot_ms        length of a slot
-- ARGV[7]   tenant_id      or empty for all
-- ARGV[8]   tenants        those of the operator: see lib/confinement
-- ARGV[9]   scope          the reservation's scope or one above it, or empty
-- ARGV[10]  state          EXPIRED, QUARANTINED, or empty for both
-- RETURNS   next_start? examined:int counts(slot:int expirations:int)*
-- BOUND     examine entries of the log, 256 KiB of entries
-- EMITS     nothing
-- @include  expiration, stream_walk, time
--
-- next_start is empty at the end. Slots are numbered from 0, in the order of time; empty ones are left out.
local event_log = KEYS[1]
local start, stop, examine = ARGV[1], ARGV[2], tonumber(ARGV[3])
local from_ms, to_ms, slot_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local tenant_id, tenants, scope, state = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local search = expiration.expiration_search(from_ms, to_ms, tenant_id, tenants, scope, state)

local slots, counts, is_beyond = {}, {}, false
local last, examined, more = stream_walk.walk_stream('XRANGE', event_log, start, stop, examine, function(entry)
  local at, _, beyond = expiration.expiration_of(entry, search)
  if at then
    local slot = math.floor((at - search.from) / slot_ms)
    if not counts[slot] then
      counts[slot] = 0
      slots[#slots + 1] = slot
    end
    counts[slot] = counts[slot] + 1
  end
  is_beyond = beyond
  return beyond
end)

local reply = { more and not is_beyond and '(' .. last or '', time.ms_text(examined) }
for _, slot in ipairs(slots) do
  reply[#reply + 1], reply[#reply + 2] = time.ms_text(slot), time.ms_text(counts[slot])
end
return reply
