#!lua flags=no-writes
-- find_webhook: read one subscription, whole or only the fields for a delivery attempt, unless it is unchanged.
--
-- KEYS[1]   webhook          hash
-- KEYS[2]   webhook_revision string, changes with every subscription of the partition
-- ARGV[1]   known            the revision at which the caller read it, or empty
-- ARGV[2]   whole            1 to include description and metadata, which deliveries do not need
-- RETURNS   UNCHANGED | NOT_FOUND revision | FOUND revision now_ms record{}
-- BOUND     one subscription
-- EMITS     nothing
-- @include  read_target, time
local webhook, webhook_revision = KEYS[1], KEYS[2]
local known, whole = ARGV[1], ARGV[2] == '1'

local revision = redis.call('GET', webhook_revision) or '0'
if revision == known then
  return { 'UNCHANGED' }
end
-- Fails if the key holds another type: such a record is damaged, not missing.
redis.call('HLEN', webhook)
local fields = whole and redis.call('HGETALL', webhook) or not whole and read_target(webhook) or {}
if #fields == 0 then
  return { 'NOT_FOUND', revision }
end
return { 'FOUND', revision, time.ms_text(time.now_ms()), unpack(fields) }
