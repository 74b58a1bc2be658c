-- stream_walk: reads entries of a stream, bounded by their number and their bytes.
--
-- An entry may have a megabyte of metadata, from a version without limits, and its size is unknown before it is read.
-- So a run reads a few entries at a time, and stops once it has read enough.
local STREAM_BYTES = 262144
local STREAM_PORTION = 16

-- A deleted entry that is still pending in a consumer group has no fields.
local function entry_bytes(fields)
  local bytes = 0
  for i = 1, fields and #fields or 0 do
    bytes = bytes + #fields[i]
  end
  return bytes
end

-- Calls `visit` with each entry, its id and its fields, from `start` to `stop`, until the run has read `count` of them
-- or 256 KiB.
-- `visit` returns true to stop, and how many bytes it read elsewhere. Returns the id of the last entry visited or nil,
-- how many there were, and whether there may be more.
local function walk_stream(command, stream, start, stop, count, visit)
  local last, seen, bytes = nil, 0, 0
  local portion = 4
  while seen < count and bytes < STREAM_BYTES do
    local wanted = math.min(portion, count - seen)
    local entries = redis.call(command, stream, start, stop, 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      local is_over, more_bytes = visit(entry)
      last, seen, bytes = entry[1], seen + 1, bytes + entry_bytes(entry[2]) + (more_bytes or 0)
      if is_over then
        return last, seen, true
      end
    end
    if #entries < wanted then
      return last, seen, false
    end
    start, portion = '(' .. last, math.min(2 * portion, STREAM_PORTION)
  end
  return last, seen, true
end

-- The lowest id after an entry.
local function id_after(id)
  local ms, sequence = string.match(id, '^(%d+)-(%d+)$')
  return ms .. '-' .. string.format('%d', tonumber(sequence) + 1)
end

-- The value of a field of an entry, or nil.
local function value_of(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then
      return fields[i + 1]
    end
  end
  return nil
end

return {
  STREAM_BYTES = STREAM_BYTES, STREAM_PORTION = STREAM_PORTION, entry_bytes = entry_bytes, id_after = id_after,
  value_of = value_of, walk_stream = walk_stream,
}
