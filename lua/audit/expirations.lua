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
-- ARGV[8]   scope          the reservation's scope or one above it, or empty
-- ARGV[9]   state          EXPIRED, QUARANTINED, or empty for both
-- RETURNS   next_start? rows(entry_id at_ms state:EXPIRED|QUARANTINED text_count event{})*
-- BOUND     examine entries of the log, limit rows, 256 KiB of entries
-- EMITS     nothing
-- @include  now_ms: ms_text
-- @include  stream_walk: walk_stream
--
-- next_start is empty at the end.
-- The time of an event is the one its script decided by. It is slightly earlier than that of the entry's id but in the same order, as
-- scripts run one after another. So the first event after to_ms is the end.
local event_log = KEYS[1]
local start, stop, examine, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local from_ms, to_ms, tenant_id, scope, state = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local from, to = from_ms == '-inf' and -math.huge or tonumber(from_ms), to_ms == '+inf' and math.huge or tonumber(to_ms)
local STATES = { ['reservation.expired'] = 'EXPIRED', ['custom.reservation.quarantined'] = 'QUARANTINED' }

local reply, rows = { '' }, 0

local function value_of(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then
      return fields[i + 1]
    end
  end
  return nil
end

local function is_wanted(fields, found)
  if state ~= '' and found ~= state or tenant_id ~= '' and value_of(fields, 'tn') ~= tenant_id then
    return false
  end
  local at = scope ~= '' and (value_of(fields, 'sc') or '') or scope
  return at == scope or string.sub(at, 1, #scope + 1) == scope .. '/'
end

local function append(entry, at, found)
  local fields = entry[2]
  for _, text in ipairs({ entry[1], ms_text(at), found, tostring(#fields) }) do
    reply[#reply + 1] = text
  end
  for i = 1, #fields do
    reply[#reply + 1] = fields[i]
  end
  rows = rows + 1
end

local is_beyond = false
local last, _, more = walk_stream('XRANGE', event_log, start, stop, examine, function(entry)
  local fields = entry[2]
  local found = STATES[value_of(fields, 'ty')]
  if found then
    local at = tonumber(value_of(fields, 'expired_at') or value_of(fields, 'quarantined_at') or string.match(entry[1], '^%d+'))
    if at > to then
      is_beyond = true
      return true
    end
    if at >= from and is_wanted(fields, found) then
      append(entry, at, found)
    end
  end
  return rows == limit
end)
if more and not is_beyond then
  reply[1] = '(' .. last
end
return reply
