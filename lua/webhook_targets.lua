#!lua flags=no-writes
-- webhook_targets: the active subscriptions of some owners, for those who dispatch their events.
--
-- KEYS[1]   webhook_revision string, which changes with every subscription of the partition
-- ARGV[...] owner and the revision at which its list was read, or empty: for each owner
-- RETURNS   revision, then for each owner: '=' when its list is as it was, or the number of its subscriptions, and each as its
--           id and the number of its fields and values, followed by these
-- BOUND     the subscriptions of as many owners as the caller names (at most 1,000 each)
-- EMITS     nothing
-- @include  keys
local webhook_revision = KEYS[1]

local tag = tag_of_key(webhook_revision)
local revision = redis.call('GET', webhook_revision) or '0'

local reply = { revision }
for i = 1, #ARGV, 2 do
  local owner, known = ARGV[i], ARGV[i + 1]
  if known == revision then
    reply[#reply + 1] = '='
  else
    local count_at, count = #reply + 1, 0
    reply[count_at] = '0'
    for _, id in ipairs(redis.call('ZRANGE', webhook_index_key(tag, owner), 0, -1)) do
      local key = webhook_key(tag, id)
      -- One that is no hash is nobody's, for it would stand in the way of all others.
      if redis.pcall('HGET', key, 'st') == 'ACTIVE' then
        count = count + 1
        local fields = redis.call('HGETALL', key)
        reply[#reply + 1] = id
        reply[#reply + 1] = tostring(#fields)
        for j = 1, #fields do
          reply[#reply + 1] = fields[j]
        end
      end
    end
    reply[count_at] = tostring(count)
  end
end
return reply
