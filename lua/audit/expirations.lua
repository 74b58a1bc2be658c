#!lua flags=no-writes
-- expirations: the expired and quarantined reservations in a partition's event log, in bounded pages.
--
-- KEYS[1]   event_log      stream
-- ARGV[1]   start          entry to start with, or '(' and the entry to start after
-- ARGV[2]   stop           entry to end with
-- ARGV[3]   examine        maximum entries to examine
-- ARGV[4]   limit          maximum rows to return
-- ARGV[5]   from_ms        earliest time of the expiry or quarantine, inclusive, or -inf
-- ARGV[6]   to_ms          latest, inclusive, or +inf
-- ARGV[7]   tenant_id      or empty for all
-- ARGV[8]   tenants        those of the operator: see lib/confinement
-- ARGV[9]   scope          the reservation's scope or one above it, or empty
-- ARGV[10]  state          EXPIRED, QUARANTINED, or empty for both
-- RETURNS   next_start? rows(entry_id at_ms state:EXPIRED|QUARANTINED text_count event{})*
-- BOUND     examine entries of the log, limit rows, 256 KiB of entries
-- EMITS     nothing
-- @include  expiration, lists, stream_walk, time
--
-- next_start is empty at the end.
local event_log = KEYS[1]
local start, stop, examine, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local from_ms, to_ms, tenant_id, tenants = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local scope, state = ARGV[9], ARGV[10]
local search = expiration.expiration_search(from_ms, to_ms, tenant_id, tenants, scope, state)

local reply, rows = { '' }, 0

local function append(entry, at, found)
  local fields = entry[2]
  lists.append_all(reply, { entry[1], time.ms_text(at), found, tostring(#fields) })
  lists.append_all(reply, fields)
  rows = rows + 1
end

local is_beyond = false
local last, _, more = stream_walk.walk_stream('XRANGE', event_log, start, stop, examine, function(entry)
  local at, found, beyond = expiration.expiration_of(entry, search)
  if at then
    append(entry, at, found)
  end
  is_beyond = beyond
  return beyond or rows == limit
end)
if more and not is_beyond then
  reply[1] = '(' .. last
end
return reply
