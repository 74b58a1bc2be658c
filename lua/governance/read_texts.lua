#!lua flags=no-writes
-- read_texts: the free-text fields of listed records, as many as fit into one run.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants; the records are in this partition
-- ARGV[1]   kind             tenant, api_key, policy or webhook
-- ARGV[...] ids of records
-- RETURNS   records(text_count record{})*
-- BOUND     the given ids, until 256 KiB are read
-- EMITS     nothing
-- @include  keys, listing
--
-- The reply covers the first of the ids, at least one. A record that no longer exists has no fields.
local tenant_index = KEYS[1]
local kind = ARGV[1]
local first_id = 2
local KEY_OF = { tenant = keys.tenant, api_key = keys.api_key, policy = keys.policy, webhook = keys.webhook }
-- Stored with the record, but never shown.
local HIDDEN = { hd = true, rules = true }

local tag = keys.tag_of(tenant_index)
local names = {}
for _, name in ipairs(listing.LIST_TEXTS[kind]) do
  if not HIDDEN[name] then
    names[#names + 1] = name
  end
end

local reply, bytes = {}, 0
for i = first_id, #ARGV do
  local values = redis.call('HMGET', KEY_OF[kind](tag, ARGV[i]), unpack(names))
  local count_at, count = #reply + 1, 0
  reply[count_at] = '0'
  for at, name in ipairs(names) do
    local value = values[at]
    if value then
      reply[#reply + 1], reply[#reply + 2], count = name, value, count + 2
      bytes = bytes + #value
    end
  end
  reply[count_at] = tostring(count)
  if bytes >= listing.RUN_BYTES then
    break
  end
end
return reply
