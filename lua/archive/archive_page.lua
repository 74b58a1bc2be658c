#!lua flags=no-writes
-- archive_page: read the next entries of a stream that are to be archived, with what they name.
--
-- KEYS[1]   lease          string, the token of the instance that archives the partition
-- KEYS[2]   stream         of the partition: the journal, the event log or the audit log
-- ARGV[1]   token          the calling instance
-- ARGV[2]   name           of the stream: charges, events or audit
-- ARGV[3]   cursor         where the caller believes that the archive ends
-- ARGV[4]   after          the last entry that the caller has read
-- ARGV[5]   stop_ms        entries from this instant on are left for the next file, or empty
-- ARGV[6]   settle_ms      entries that are younger are not read: a failover could still lose them
-- ARGV[7]   limit          maximum entries to return
-- ARGV[8]   with_metadata  0 leaves out the metadata of reservations and debits
-- RETURNS   READ now_ms upper_ms more:flag entries(entry_id field_count fields{})* | MOVED cursor | NOT_HELD
-- BOUND     limit entries, 256 KiB of them and of their records
-- EMITS     nothing
-- @include  archived, charge_fields, keys, lists, stream_walk, time
--
-- The entries of charges have only the fields that differ from those of the entry before in the reply, with an empty
-- value for one that is gone: most are the same, and each costs the reader more than the record costs here. upper_ms is
-- the instant up to which there is nothing else to read if more is 0. Under the lease, and only if the cursor is where
-- the caller believes it: so what it reads is what follows the last file.
local lease, stream = KEYS[1], KEYS[2]
local token, name, cursor, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stop_ms, settle_ms, limit, with_metadata = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'

if redis.call('GET', lease) ~= token then
  return { 'NOT_HELD' }
end
local tag = keys.tag_of(stream)
local place = redis.call('HGET', keys.journal_places(tag), archived.cursor_of(name)) or ''
if place ~= cursor then
  return { 'MOVED', place }
end

local now = time.now_ms()
local upper = now - settle_ms - 1
if stop_ms and stop_ms <= upper then
  upper = stop_ms - 1
end
local reply = { 'READ', time.ms_text(now), time.ms_text(upper), '0' }

local told, seen, entries = {}, {}, 0
local function append_changes(fields)
  entries = entries + 1
  for i = 1, #fields, 2 do
    local field_name, value = fields[i], fields[i + 1]
    seen[field_name] = entries
    if told[field_name] ~= value then
      told[field_name] = value
      reply[#reply + 1], reply[#reply + 2] = field_name, value
    end
  end
  for field_name, value in pairs(told) do
    if value ~= '' and seen[field_name] ~= entries then
      told[field_name] = ''
      reply[#reply + 1], reply[#reply + 2] = field_name, ''
    end
  end
end
local _, _, more = stream_walk.walk_stream('XRANGE', stream, '(' .. after, time.ms_text(upper), limit, function(entry)
  local fields, bytes = entry[2], 0
  if name == 'charges' then
    fields, bytes = charge_fields.of_entry(tag, entry[2], with_metadata)
  elseif name == 'events' and not with_metadata then
    fields = {}
    charge_fields.add_told(entry[2], with_metadata, fields)
  end
  reply[#reply + 1] = entry[1]
  local head = #reply + 1
  reply[head] = ''
  if name == 'charges' then
    append_changes(fields)
  else
    lists.append_all(reply, fields)
  end
  reply[head] = tostring((#reply - head) / 2)
  return false, bytes
end)
reply[4] = more and '1' or '0'
return reply
