#!lua flags=no-writes
-- list_audit_log: those rows of one of a partition's audit logs that match, a bounded stretch of it at a time, either way.
--
-- KEYS[1]   audit_log      stream
-- KEYS[2]   walked         one of its indexes, or the log itself
-- ARGV[1]   direction      asc or desc
-- ARGV[2]   start          entry to start with, or '(' and the entry to start behind
-- ARGV[3]   stop           likewise, to end with
-- ARGV[4]   examine        entries that a run looks at, at most
-- ARGV[5]   limit          rows that a run returns, at most
-- ARGV[6]   bytes          texts of rows that a run reads, about: it ends behind the entries with which it has read as much
-- ARGV[7]   digest         what field k of an index entry must hold, or empty for any
-- ARGV[...] condition and value pairs: a field as lua/lib/append_audit.lua names it and one value that it may have (tr need only begin
--           so; of several values for one field any will do); min_status, max_status
-- RETURNS   next_start examined (entry_id text_count (name value)*)*, next_start being empty at the end
-- BOUND     examine entries, and bytes by steps of 20 entries
-- EMITS     nothing
local audit_log, walked = KEYS[1], KEYS[2]
local direction, start, stop, examine = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local limit, bytes, digest = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local first_condition = 8
local ENTRIES_A_STEP = 20
local TRACE_ID_LENGTH = 32

local is_index = walked ~= audit_log
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
    if not value or not values[name == 'tr' and string.sub(value, 1, TRACE_ID_LENGTH) or value] then
      return false
    end
  end
  local status = tonumber(value_of.st)
  return not (min_status and (not status or status < min_status)) and not (max_status and (not status or status > max_status))
end

local function size_of(fields)
  local size = 0
  for i = 1, #fields do
    size = size + #fields[i]
  end
  return size
end

-- The fields of the row at an entry of what is walked, or nil: an index tells other values of its part, and may name a row that is gone.
local function row_at(entry)
  if not is_index then
    return entry[2]
  end
  if digest ~= '' and entry[2][2] ~= digest then
    return nil
  end
  local found = redis.call('XRANGE', audit_log, entry[1], entry[1])[1]
  return found and found[2]
end

local command = direction == 'desc' and 'XREVRANGE' or 'XRANGE'
local reply, rows, examined, read = { '', '0' }, 0, 0, 0
while true do
  local entries = redis.call(command, walked, start, stop, 'COUNT', math.min(ENTRIES_A_STEP, examine - examined))
  for _, entry in ipairs(entries) do
    local fields = row_at(entry)
    examined = examined + 1
    start = '(' .. entry[1]
    if fields then
      read = read + size_of(fields)
      if is_wanted(fields) then
        reply[#reply + 1] = entry[1]
        reply[#reply + 1] = tostring(#fields)
        for i = 1, #fields do
          reply[#reply + 1] = fields[i]
        end
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
