#!lua
-- start_replay: start a replay of a subscription, unless another one is in progress.
--
-- KEYS[1]   webhook          hash
-- KEYS[2]   replay           hash, the latest replay of the subscription
-- ARGV[1]   tenant_id        the owner that the caller read
-- ARGV[2]   replay_id        of the new replay
-- ARGV[3]   lease_ms         after this time, an unfinished replay counts as given up
-- ARGV[4]   known_done       id of a replay whose deliveries are all past their first attempts, or empty
-- RETURNS   STARTED | INACTIVE current_status | IN_PROGRESS | WAITING replay_id places(partition ref)* | NOT_FOUND
--           | TENANT_CLOSED
-- BOUND     one subscription, and one delivery for each queue its last replay queued in
-- EMITS     nothing
-- @include  changeable_webhook, keys
--
-- WAITING returns the last delivery in each queue of the last replay. They may be in other partitions, so the caller
-- checks them. When none is waiting any more, it calls again with that replay as known_done.
local webhook, replay = KEYS[1], KEYS[2]
local tenant_id, replay_id, lease_ms, known_done = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local tag = keys.tag_of(webhook)
local record, refusal = changeable_webhook(tag, webhook, tenant_id)
if not record then
  return refusal
end
if record.st ~= 'ACTIVE' then
  return { 'INACTIVE', record.st }
end
local last = redis.call('HMGET', replay, 'id', 'waiting')
if last[1] and last[1] ~= known_done then
  if not last[2] then
    return { 'IN_PROGRESS' }
  end
  local reply = { 'WAITING', last[1] }
  for part in string.gmatch(last[2], '[^ ]+') do
    reply[#reply + 1] = part
  end
  return reply
end

-- Nothing is refused below this line.
redis.call('DEL', replay)
redis.call('HSET', replay, 'id', replay_id)
redis.call('PEXPIRE', replay, lease_ms)
return { 'STARTED' }
