#!lua flags=no-writes
-- read_test_clock: the time of the deployment, and how far a test clock has put it ahead.
--
-- KEYS[1]   test_clock       hash, see lib/test_clock.lua
-- RETURNS   now_ms ahead_ms:int advancing_to_ms?
-- BOUND     one record
-- EMITS     nothing
-- @include  time
local clock = redis.call('HMGET', KEYS[1], 'stands_at', 'to')
local now = time.now_ms()
return { time.ms_text(now), time.ms_text(now - time.redis_ms()), clock[1] and clock[2] or '' }
