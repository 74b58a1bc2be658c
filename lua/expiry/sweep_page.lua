#!lua flags=allow-oom
-- sweep_page: take or renew the lease on a partition's sweep, and read what is due there.
-- It carries allow-oom because the sweeper must run when Redis is full.
--
-- KEYS[1]   lease          string, the token of the instance that sweeps the partition
-- KEYS[2]   ttl_index      zset, score = reclaim deadline in ms
-- ARGV[1]   token          the calling instance; empty reads without a lease, which is safe because expire_page decides
-- ARGV[2]   lease_ms
-- ARGV[3]   take           1 takes a free lease, 0 only renews the caller's own
-- ARGV[4]   skip           due entries to skip: those that this pass could not decide on
-- ARGV[5]   limit          maximum ids to return
-- RETURNS   HELD now_ms lease:renewed|taken|none due:int oldest_due_ms? next_deadline_ms? quarantined:int awaiting:int
--           oldest_awaiting_ms? reservation_ids* | OTHER now_ms lapses_in_ms | FREE now_ms
-- BOUND     limit ids
-- EMITS     nothing
-- @include  keys, sweep_figures, time
--
-- due counts all due entries, including skipped ones. oldest_due_ms, next_deadline_ms and oldest_awaiting_ms are empty
-- if there are no such entries. awaiting counts the holds past their grace that an operator has to clean up; they are
-- not due.
-- The lease is written last: if the index cannot be read, no instance gets the lease, and each one fails with an error.
local lease, ttl_index = KEYS[1], KEYS[2]
local token, lease_ms, take, skip, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local now = time.now_ms()
local how = 'none'
if token ~= '' then
  local holder = redis.call('GET', lease)
  if holder and holder ~= token then
    return { 'OTHER', time.ms_text(now), tostring(redis.call('PTTL', lease)) }
  end
  if not holder and take ~= '1' then
    return { 'FREE', time.ms_text(now) }
  end
  how = holder and 'renewed' or 'taken'
end

local tag = keys.tag_of(ttl_index)
local due, oldest = sweep_figures.due_count(ttl_index, now)
local following = sweep_figures.first_score(ttl_index, time.ms_text(now))
local quarantined, awaiting, oldest_awaiting = sweep_figures.set_aside(tag, now)
local reply = { 'HELD', time.ms_text(now), how, tostring(due), oldest, following, quarantined, awaiting,
  oldest_awaiting }
if limit > 0 and due > 0 then
  for _, reservation_id in ipairs(redis.call('ZRANGEBYSCORE', ttl_index, '-inf', '(' .. time.ms_text(now), 'LIMIT',
    skip, limit)) do
    reply[#reply + 1] = reservation_id
  end
end

-- Nothing is refused below this line.
if token ~= '' then
  redis.call('SET', lease, token, 'PX', lease_ms)
end
return reply
