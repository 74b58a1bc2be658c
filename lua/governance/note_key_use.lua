#!lua flags=allow-oom
-- note_key_use: record that an API key is in use, at most once a minute.
-- allow-oom: it replaces a few bytes, and operators look at it when Redis is full, too.
--
-- KEYS[1]   api_key          hash
-- RETURNS   NOTED | UNCHANGED
-- BOUND     one key
-- EMITS     nothing
-- @include  api_key_record, time
local api_key = KEYS[1]

local now = time.now_ms()
local record = api_key_record.read_api_key(api_key)
if not record or api_key_record.use_is_noted(record, now) then
  return { 'UNCHANGED' }
end

-- Nothing is refused below this line.
redis.call('HSET', api_key, 'last_used_at', time.ms_text(now))
return { 'NOTED' }
