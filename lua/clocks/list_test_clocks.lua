#!lua flags=no-writes
-- list_test_clocks: all test clocks in the order of creation, or one of them.
--
-- KEYS[1]   test_clocks      sorted set of all test clocks
-- ARGV[1]   clock_id         or empty for all
-- RETURNS   clocks(tenant_count tenants* text_count record{})*
-- BOUND     as many clocks as a deployment may have, with their tenants
-- EMITS     nothing
-- @include  keys
local test_clocks = KEYS[1]
local clock_id = ARGV[1]

local tag = keys.tag_of(test_clocks)
local reply = {}
local function append(list)
  reply[#reply + 1] = tostring(#list)
  for _, text in ipairs(list) do
    reply[#reply + 1] = text
  end
end
for _, id in ipairs(clock_id == '' and redis.call('ZRANGE', test_clocks, 0, -1) or { clock_id }) do
  local record = redis.call('HGETALL', keys.test_clock(tag, id))
  if #record > 0 then
    append(redis.call('ZRANGE', keys.test_clock_tenants(tag, id), 0, -1))
    append(record)
  end
end
return reply
