#!lua flags=allow-oom
-- leave_waiters: give up the place of a reserve that no longer waits for funds, and wake the next one.
-- allow-oom: it only removes.
--
-- KEYS[1]   budget         hash, of the scope where it waits
-- KEYS[2]   waiter_queue   zset of places at this budget, score = number of the arrival
-- KEYS[3]   waiters        zset of the tenant's places, score = until when each counts, in ms
-- ARGV[1]   place          as lua/lib/waking.lua describes it
-- RETURNS   LEFT
-- BOUND     one place; 1,000 places of dead instances
-- EMITS     nothing
-- @include  waking
local budget, waiter_queue, waiters = KEYS[1], KEYS[2], KEYS[3]
local place = ARGV[1]

redis.call('ZREM', waiter_queue, place)
redis.call('ZREM', waiters, place)
waking.wake_waiters(budget)
return { 'LEFT' }
