-- read_target: the fields of a subscription that dispatch needs, without its description and metadata, which may be
-- large.
-- lua/lib/webhook_record.lua describes the fields.
local TARGET_FIELDS =
  { 'st', 'tn', 'ur', 'hd', 'se', 'sp', 'su', 'rp', 'df', 'ca', 'et', 'ec', 'sf', 'tu', 'th', 'ta', 'eg', 'er', 'pf',
    'oc', 'sw' }

-- Returns the fields and values as a flat list and their bytes, or nil if the record does not exist or is not a hash.
local function read_target(key)
  local values = redis.pcall('HMGET', key, unpack(TARGET_FIELDS))
  if values.err then
    return nil
  end
  local flat, bytes = {}, 0
  for i, name in ipairs(TARGET_FIELDS) do
    if values[i] then
      flat[#flat + 1], flat[#flat + 2] = name, values[i]
      bytes = bytes + #values[i]
    end
  end
  return flat[1] and flat, bytes
end

return read_target
