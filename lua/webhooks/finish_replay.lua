#!lua flags=allow-oom
-- finish_replay: record what a replay queued, and block the next replay only until these deliveries had their first
-- attempts.
-- allow-oom: what was queued must be recorded, even if Redis got full meanwhile.
--
-- KEYS[1]   webhook          hash, names the partition
-- KEYS[2]   replay           hash, the latest replay of the subscription
-- ARGV[1]   subscription_id
-- ARGV[2]   tenant_id        its owner
-- ARGV[3]   replay_id
-- ARGV[4]   waiting          the last delivery in each queue, as space-separated `partition ref` pairs, or empty
-- ARGV[5]   waiting_ms       maximum time for which these count as waiting
-- ARGV[6-9] origin           actor is admin or admin_on_behalf_of
-- ARGV[10]  events_queued
-- ARGV[...] name and value pairs of the request
-- RETURNS   FINISHED
-- BOUND     one replay, and one delivery for each queue it queued in
-- EMITS     nothing
-- @include  audit_log, keys
local webhook, replay = KEYS[1], KEYS[2]
local subscription_id, tenant_id, replay_id, waiting, waiting_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }
local events_queued, first_detail = ARGV[10], 11

local tag = keys.tag_of(webhook)
audit_log.require_audit_log(tag)
local current = redis.call('HGET', replay, 'id')

-- Nothing is refused below this line.
if not current or current == replay_id then
  redis.call('DEL', replay)
  if waiting ~= '' then
    redis.call('HSET', replay, 'id', replay_id, 'waiting', waiting)
    redis.call('PEXPIRE', replay, waiting_ms)
  end
end
audit_log.append_audit(tag, 'replayEvents', 202, tenant_id, 'webhook', subscription_id, origin, {
  'replay_id', replay_id, 'events_queued', events_queued, unpack(ARGV, first_detail)
})
return { 'FINISHED' }
