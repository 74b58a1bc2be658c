#!lua flags=no-writes
-- list_events: the matching events of a partition, in bounded pages of its log and either direction.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   walked         stream with the ids and event types of some of the log's entries, or the log itself
-- ARGV[1]   direction      asc or desc
-- ARGV[2]   start          entry to start with, or '(' and the entry to start after
-- ARGV[3]   stop           entry to end with
-- ARGV[4]   examine        maximum entries to examine
-- ARGV[5]   limit          maximum events to return
-- ARGV[...] condition and value pairs: a field as named in lua/lib/event_writer.lua and its value (for sc a scope,
--           which includes those below it, and for tr a prefix); category, one or more, comma-separated; search, a
--           lower-case text that the scope, the correlation id or the client's idempotency key contains
-- RETURNS   next_start? examined:int events(entry_id text_count event{})*
-- BOUND     examine entries, limit events, 256 KiB of entries
-- EMITS     nothing
-- @include  field, lists, scope_tree, stream_walk
--
-- next_start is empty at the end.
local event_log, walked = KEYS[1], KEYS[2]
local direction, start, stop, examine, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local first_condition = 6
local function begins(value, text)
  return string.sub(value, 1, #text) == text
end
local MATCHES = { sc = scope_tree.is_within, tr = begins }
local CATEGORIES = { budget = true, tenant = true, api_key = true, policy = true, reservation = true, webhook = true }

local is_index = walked ~= event_log
local wanted, wanted_type, wanted_categories, search = {}, nil, nil, nil
for i = first_condition, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  if name == 'ty' then
    wanted_type = value
  elseif name == 'category' then
    wanted_categories = {}
    for category in string.gmatch(value, '[^,]+') do
      wanted_categories[category] = true
    end
  elseif name == 'search' then
    search = value
  else
    wanted[#wanted + 1] = { name, value, MATCHES[name] or rawequal }
  end
end

-- Same as categoryOf in src/ledger/event-types.ts.
local function category_of(event_type)
  local first, second = string.match(event_type, '^([^.]*)%.?([^.]*)')
  local segment = first == 'custom' and second or first
  if segment == 'direct_debit' or segment == 'credit' then
    return 'budget'
  elseif segment == 'quota' then
    return 'policy'
  end
  return CATEGORIES[segment] and segment or 'system'
end

local function is_wanted_type(event_type)
  return event_type and (not wanted_type or event_type == wanted_type)
    and (not wanted_categories or wanted_categories[category_of(event_type)])
end

local function holds(fields, name, text)
  local value = stream_walk.value_of(fields, name)
  return value and string.find(string.lower(value), text, 1, true)
end

local function is_wanted(fields)
  for _, condition in ipairs(wanted) do
    local text, value = condition[2], stream_walk.value_of(fields, condition[1])
    if not value or not condition[3](value, text) then
      return false
    end
  end
  return not search or holds(fields, 'sc', search) or holds(fields, 'co', search)
    or holds(fields, field.idempotency_key, search)
end

-- Returns the fields of the event at an entry if it is wanted, and the bytes read from the log for it. An index holds
-- the type, so an event of another type is not read from the log.
local function event_at(entry)
  local fields = entry[2]
  if not is_wanted_type(stream_walk.value_of(fields, is_index and 'y' or 'ty')) then
    return nil, 0
  end
  local bytes = 0
  if is_index then
    local found = redis.call('XRANGE', event_log, entry[1], entry[1])[1]
    fields = found and found[2]
    bytes = stream_walk.entry_bytes(fields)
  end
  return fields and is_wanted(fields) and fields, bytes
end

local reply, rows = { '', '' }, 0
local function visit(entry)
  local fields, bytes = event_at(entry)
  if fields then
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = tostring(#fields)
    lists.append_all(reply, fields)
    rows = rows + 1
  end
  return rows == limit, bytes
end

local last, examined, more =
  stream_walk.walk_stream(direction == 'desc' and 'XREVRANGE' or 'XRANGE', walked, start, stop, examine, visit)
reply[1], reply[2] = more and '(' .. last or '', tostring(examined)
return reply
