#!lua flags=allow-oom
-- renew_waiters: say that reserves of one instance still wait, and learn whose turn it is.
-- allow-oom: a full Redis must not end the waits.
--
-- KEYS[1]   waiters        zset of the tenant's places, score = until when each counts, in ms
-- ARGV[1]   tenant_id
-- ARGV[2]   lease_ms       how long the places count from now on
-- ARGV[...] of each place: the place itself, the number of its arrival, its unit, the scope whose queue it is in, and
--           its idempotency key
-- RETURNS   RENEWED places*
-- BOUND     the places given, at most 100; 1,000 places of dead instances
-- EMITS     nothing
-- @include  extras, keys, time, waking
--
-- Returns the places that are first in their queues and for which enough remains, or may remain once due holds are
-- reclaimed: the reserve does that when it runs. Also those for which the budget has become too small. Usually their
-- instance knows: this finds what a lost message or a lost instance has left behind. It also returns those whose
-- idempotency key has got an outcome meanwhile, from another request. A place that Redis has lost is put back where it
-- was.
local waiters = KEYS[1]
local tenant_id, lease_ms, first_place, A_PLACE = ARGV[1], ARGV[2], 3, 5
local KEPT_MS = 120000

local tag = keys.tag_of(waiters)
local now = time.now_ms()
local alive_until = time.ms_text(now + lease_ms)
local renewed, budgets, is_ours = { 'ZADD', waiters }, {}, {}
for i = first_place, #ARGV, A_PLACE do
  renewed[#renewed + 1], renewed[#renewed + 2] = alive_until, ARGV[i]
  is_ours[ARGV[i]] = true
end

-- Nothing is refused below this line.
local has_lost = redis.call(unpack(renewed)) > 0
redis.call('PEXPIRE', waiters, KEPT_MS)
local reply = { 'RENEWED' }
for i = first_place, #ARGV, A_PLACE do
  local place, number, unit, scope = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local budget, queue = keys.budget(tag, unit, scope), keys.waiter_queue(tag, unit, scope)
  if has_lost and redis.call('EXISTS', budget) == 1 then
    redis.call('ZADD', queue, number, place)
    redis.call('HSET', budget, 'waiting', '1')
    extras.mark_extras(budget)
  end
  if not budgets[budget] then
    budgets[budget], budgets[#budgets + 1] = true, budget
    redis.call('PEXPIRE', queue, KEPT_MS)
  end
  if redis.call('EXISTS', keys.reserve_idempotency(tag, tenant_id, ARGV[i + 4])) == 1 then
    reply[#reply + 1] = place
  end
end
local has_due = #redis.call('ZRANGEBYSCORE', keys.ttl_index(tag), '-inf', '(' .. time.ms_text(now), 'LIMIT', 0, 1) > 0
for _, budget in ipairs(budgets) do
  local place = waking.first_waiter(budget, now)
  if place and is_ours[place] and (has_due or waking.is_worth_a_try(budget, place)) then
    reply[#reply + 1] = place
  end
end
return reply
