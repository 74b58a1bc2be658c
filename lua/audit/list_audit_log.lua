#!lua flags=no-writes
-- list_audit_log: the matching rows of one of a partition's audit logs, in bounded pages and either direction.
--
-- KEYS[1]   audit_log      stream
-- KEYS[2]   walked         part of an index (a sorted set), or the log itself
-- ARGV[1]   direction      asc or desc
-- ARGV[2]   start          entry to start with, or '(' and the entry to start after
-- ARGV[3]   stop           entry to end with, same form
-- ARGV[4]   examine        maximum entries to examine
-- ARGV[5]   limit          maximum rows to return
-- ARGV[6]   bytes          approximate bytes of rows to read: the run ends at the entry that reaches this
-- ARGV[7]   digest         the digest of the indexed value, or empty to walk over the log itself
-- ARGV[...] condition and value pairs: a field as named in lua/lib/audit_log.lua and a value (tr is compared up to the
--           end of the trace id; several values for one field are alternatives); min_status, max_status
-- RETURNS   next_start? examined:int rows(entry_id text_count row{})*
-- BOUND     examine entries, and bytes in steps of 20 entries
-- EMITS     nothing
-- @include  audit_index, lists
--
-- next_start is empty at the end.
local audit_log, walked = KEYS[1], KEYS[2]
local direction, start, stop, examine = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local limit, bytes, digest = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local first_condition = 8
local ENTRIES_A_STEP = 20

local wanted, min_status, max_status = {}, nil, nil
for i = first_condition, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  if name == 'min_status' then
    min_status = tonumber(value)
  elseif name == 'max_status' then
    max_status = tonumber(value)
  else
    wanted[name] = wanted[name] or {}
    wanted[name][value] = true
  end
end

local function is_wanted(fields)
  local value_of = {}
  for i = 1, #fields, 2 do
    value_of[fields[i]] = fields[i + 1]
  end
  for name, values in pairs(wanted) do
    local value = value_of[name]
    if not value or not values[name == 'tr' and string.sub(value, 1, audit_index.TRACE_ID_LENGTH) or value] then
      return false
    end
  end
  local status = tonumber(value_of.st)
  return not (min_status and (not status or status < min_status))
    and not (max_status and (not status or status > max_status))
end

local function size_of(fields)
  local size = 0
  for i = 1, #fields do
    size = size + #fields[i]
  end
  return size
end

-- Converts a bound of the log to one of its index. In both, a time without a sequence number stands for all entries of
-- that time.
local function index_bound(bound, is_upper)
  local exclusive, ms, sequence = string.match(bound, '^(%(?)(%d+)%-?(%d*)$')
  if not ms then
    return is_upper and '(' .. digest .. ':' or '[' .. digest
  elseif sequence == '' then
    local instant = digest .. string.sub(audit_index.audit_place(ms, 0), 1, 15)
    return is_upper and '(' .. instant .. ':' or '[' .. instant
  end
  return (exclusive == '' and '[' or '(') .. digest .. audit_index.audit_place(ms, sequence)
end

-- The next entries as `{ id, fields }`. A row that is in the index but no longer exists has no fields.
local function entries_from(bound, count)
  local is_down = direction == 'desc'
  if digest == '' then
    return redis.call(is_down and 'XREVRANGE' or 'XRANGE', walked, bound, stop, 'COUNT', count)
  end
  local command = is_down and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
  local entries = {}
  for i, member in ipairs(redis.call(command, walked, index_bound(bound, is_down), index_bound(stop, not is_down),
    'LIMIT', 0, count)) do
    local id = audit_index.entry_of(member, digest)
    entries[i] = redis.call('XRANGE', audit_log, id, id)[1] or { id }
  end
  return entries
end

local reply, rows, examined, read = { '', '0' }, 0, 0, 0
while examined < examine do
  local entries = entries_from(start, math.min(ENTRIES_A_STEP, examine - examined))
  for _, entry in ipairs(entries) do
    local fields = entry[2]
    examined = examined + 1
    start = '(' .. entry[1]
    if fields then
      read = read + size_of(fields)
      if is_wanted(fields) then
        reply[#reply + 1] = entry[1]
        reply[#reply + 1] = tostring(#fields)
        lists.append_all(reply, fields)
        rows = rows + 1
      end
    end
    if rows == limit or examined == examine or read >= bytes then
      reply[1], reply[2] = start, tostring(examined)
      return reply
    end
  end
  if #entries < ENTRIES_A_STEP then
    reply[2] = tostring(examined)
    return reply
  end
end
return reply
