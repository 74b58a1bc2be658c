#!lua flags=allow-oom
-- expire_api_keys: emit an event for each API key of a partition that has expired, once.
-- allow-oom: keys also expire when Redis is full.
--
-- KEYS[1]   key_expiries   sorted set of the keys that may still expire, score = expiry in ms
-- ARGV[1]   limit          maximum keys to examine
-- RETURNS   EXPIRED announced:int more:flag
-- BOUND     limit keys
-- EMITS     api_key.expired
-- @include  api_key_record, event_writer, keys, time
--
-- more is 1 if the limit ended the run.
-- Validity does not depend on this script: authentication compares the expiry time. Keys that were revoked before get
-- no event, nor do keys whose record cannot be read, which do not work anyway.
local key_expiries = KEYS[1]
local limit = tonumber(ARGV[1])

local tag = keys.tag_of(key_expiries)
local due = redis.call('ZRANGEBYSCORE', key_expiries, '-inf', time.ms_text(time.now_ms()), 'LIMIT', 0, limit)
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
local expired = 0
for _, key_id in ipairs(due) do
  redis.call('ZREM', key_expiries, key_id)
  local readable, record = pcall(api_key_record.read_api_key, keys.api_key(tag, key_id))
  if readable and record and record.status == 'ACTIVE' then
    event_writer.append_event(tag, 'api_key.expired', record.tenant, nil, { actor = 'system' },
      { 'key_id', key_id, 'key_name', record.name, 'previous_status', 'ACTIVE', 'new_status', 'EXPIRED', 'permissions',
      record.permissions })
    expired = expired + 1
  end
end
return { 'EXPIRED', tostring(expired), #due == limit and '1' or '0' }
