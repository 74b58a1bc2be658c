#!lua flags=allow-oom
-- expire_page: reclaim many abandoned holds of one partition, those that are due.
-- Like lua/expiry/expire.lua for each of them, but a budget that several of them share is read and written once.
-- It carries allow-oom because it returns budget and must run when Redis is full.
--
-- KEYS[1]   ttl_index       zset, of the partition of these holds
-- ARGV[1]   retention_ms    how long an ended record is kept for the audit view
-- ARGV[2]   trace           trace id and flags of this sweep's events
-- ARGV[...] reservation ids
-- RETURNS   JUDGED now_ms outcomes(word detail? second_detail?)*
-- BOUND     as many holds as the caller passes
-- EMITS     those of the expiry transition
-- @include  expiry, keys, time
--
-- An outcome is what lua/expiry/expire.lua returns for that hold. If a hold cannot be checked at all, the script ends
-- with an error, before any due hold has changed. The caller then runs expire for each hold.
local ttl_index = KEYS[1]
local retention_ms, trace = ARGV[1], ARGV[2]

local now = time.now_ms()
local outcomes = expiry.reclaim(keys.tag_of(ttl_index), { unpack(ARGV, 3) }, now, retention_ms, { trace = trace })
return { 'JUDGED', time.ms_text(now), unpack(expiry.flat_outcomes(outcomes)) }
