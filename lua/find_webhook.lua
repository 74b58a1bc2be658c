#!lua flags=no-writes
-- find_webhook: one subscription as an attempt to deliver needs it, unless it is as it was.
--
-- KEYS[1]   webhook          hash
-- KEYS[2]   webhook_revision string, which changes with every subscription of the partition
-- ARGV[1]   known            the revision at which the caller read it, or empty
-- RETURNS   UNCHANGED | NOT_FOUND revision | FOUND revision now_ms (field value)*
-- BOUND     one subscription
-- EMITS     nothing
-- @include  now_ms
local webhook, webhook_revision = KEYS[1], KEYS[2]
local known = ARGV[1]

local revision = redis.call('GET', webhook_revision) or '0'
if revision == known then
  return { 'UNCHANGED' }
end
local fields = redis.call('HGETALL', webhook)
if #fields == 0 then
  return { 'NOT_FOUND', revision }
end
return { 'FOUND', revision, ms_text(now_ms()), unpack(fields) }
