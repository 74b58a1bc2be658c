#!lua flags=allow-oom
-- step_advance: take the test clock from the instant at which it stands to the next one at which something is due, and
-- in the end let it go on from its target.
-- allow-oom: what expires frees memory.
--
-- KEYS[1]   test_clock       hash, see lib/test_clock.lua
-- ARGV[1]   done_ms          the instant at which the caller has done what was due, or empty
-- ARGV[...] the hash tags of all partitions
-- RETURNS   AT now_ms partitions* | ENDED
-- BOUND     the partitions of a deployment, 256 at most
-- EMITS     nothing
-- @include  keys, time
--
-- Returns the places, from 0, of the tags with something due at that instant. It leaves an instant only for a caller
-- that has worked there, so nobody's instant passes with something undone, and several callers may step. What cannot be
-- done stays due, and is tried again at each further instant.
local test_clock, done_ms = KEYS[1], tonumber(ARGV[1])
local first_tag = 2

local clock = redis.call('HMGET', test_clock, 'stands_at', 'to')
local stands_at, target = tonumber(clock[1]), tonumber(clock[2])
if not stands_at then
  return { 'ENDED' }
end

-- The first score of an index from a bound on.
local function score_from(index, bound)
  return tonumber(redis.call('ZRANGEBYSCORE', index, bound, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or math.huge)
end

-- When something is due in a partition for the first time: a hold, a millisecond after its deadline, or a budget at a
-- boundary, for the plan of its boundaries, or at a moment of its credits. `at` and `after` are bounds of scores.
local function due_from(tag, at, after)
  return math.min(score_from(keys.ttl_index(tag), at) + 1, score_from(keys.period_index(tag), after),
    score_from(keys.period_plans(tag), after), score_from(keys.credit_index(tag), after))
end

local next_at = stands_at
if stands_at == done_ms then
  next_at = math.huge
  for i = first_tag, #ARGV do
    next_at = math.min(next_at, due_from(ARGV[i], time.ms_text(stands_at), '(' .. time.ms_text(stands_at)))
  end
end

-- Nothing is refused below this line.
if next_at > target then
  redis.call('HSET', test_clock, 'ahead_ms', time.ms_text(target - time.redis_ms()))
  redis.call('HDEL', test_clock, 'stands_at', 'from')
  return { 'ENDED' }
end
if next_at ~= stands_at then
  redis.call('HSET', test_clock, 'stands_at', time.ms_text(next_at))
end
local reply = { 'AT', time.ms_text(next_at) }
for i = first_tag, #ARGV do
  if due_from(ARGV[i], '-inf', '-inf') <= next_at then
    reply[#reply + 1] = tostring(i - first_tag)
  end
end
return reply
