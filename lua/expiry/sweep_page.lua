#!lua flags=allow-oom
-- sweep_page: hold the lease of a partition's sweep, and read what is due there.
-- It carries allow-oom because the sweeper must go on when Redis is full.
--
-- KEYS[1]   lease          string, the token of the instance that sweeps the partition
-- KEYS[2]   ttl_index      zset, score = reclaim deadline in ms
-- ARGV[1]   token          the asking instance; empty reads without a lease, which harms nobody: expire alone judges
-- ARGV[2]   lease_ms
-- ARGV[3]   take           1 takes a lease that nobody holds, 0 only renews one's own
-- ARGV[4]   skip           due entries to pass over: those that this pass could not judge
-- ARGV[5]   limit          most ids to return
-- RETURNS   HELD now_ms lease:renewed|taken|none due:int oldest_due_ms? next_deadline_ms? quarantined:int awaiting:int
--           oldest_awaiting_ms? reservation_ids* | OTHER now_ms lapses_in_ms | FREE now_ms
-- BOUND     limit ids
-- EMITS     nothing
-- @include  keys: tag_of_key
-- @include  now_ms: now_ms, ms_text
-- @include  sweep_figures: first_score, due_count, set_aside
--
-- due counts all that is due, the skipped ones too; oldest_due_ms, next_deadline_ms and oldest_awaiting_ms are empty
-- where there is none. awaiting counts the holds whose grace is over and which an operator has to clean up. They are not due.
-- The lease is written last: a partition whose index cannot be read is leased by nobody, and fails loudly for everybody.
local lease, ttl_index = KEYS[1], KEYS[2]
local token, lease_ms, take, skip, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local now = now_ms()
local how = 'none'
if token ~= '' then
  local holder = redis.call('GET', lease)
  if holder and holder ~= token then
    return { 'OTHER', ms_text(now), tostring(redis.call('PTTL', lease)) }
  end
  if not holder and take ~= '1' then
    return { 'FREE', ms_text(now) }
  end
  how = holder and 'renewed' or 'taken'
end

local tag = tag_of_key(ttl_index)
local due, oldest = due_count(ttl_index, now)
local following = first_score(ttl_index, ms_text(now))
local quarantined, awaiting, oldest_awaiting = set_aside(tag, now)
local reply = { 'HELD', ms_text(now), how, tostring(due), oldest, following, quarantined, awaiting, oldest_awaiting }
if limit > 0 and due > 0 then
  for _, reservation_id in ipairs(redis.call('ZRANGEBYSCORE', ttl_index, '-inf', '(' .. ms_text(now), 'LIMIT', skip, limit)) do
    reply[#reply + 1] = reservation_id
  end
end

-- Nothing is refused below this line.
if token ~= '' then
  redis.call('SET', lease, token, 'PX', lease_ms)
end
return reply
