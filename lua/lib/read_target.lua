-- read_target: what dispatch needs to know of a subscription: neither its description nor its metadata, which may be large.
-- lua/lib/webhook.lua says what the fields are.
local TARGET_FIELDS = { 'st', 'tn', 'ur', 'hd', 'se', 'sp', 'su', 'rp', 'df', 'ca', 'et', 'ec', 'sf', 'tu' }

-- Returns the fields and values as a flat list and their bytes, or nil for a record that is gone or no hash.
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
