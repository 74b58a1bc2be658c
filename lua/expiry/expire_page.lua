#!lua flags=allow-oom
-- expire_page: reclaim many abandoned holds of one partition, those that are really due. lua/expiry/expire.lua for each of them, but
-- a budget in which many of them end is read and written once.
-- It carries allow-oom because it gives budget back and must go on when Redis is full.
--
-- KEYS[1]   ttl_index       zset, of the partition whose holds these are
-- ARGV[1]   retention_ms    how long an ended record stays for the audit trail
-- ARGV[2]   trace           trace id and flags that the events of this sweep share
-- ARGV[...] reservation ids
-- RETURNS   JUDGED now_ms outcomes(word detail? second_detail?)*
-- BOUND     as many holds as the caller names
-- EMITS     reservation.expired, budget.threshold_crossed, custom.reservation.quarantined
-- @include  keys: tag_of_key
-- @include  now_ms: now_ms, ms_text
-- @include  expiry: reclaim, flat_outcomes
--
-- An outcome is what lua/expiry/expire.lua returns for that hold. Where a hold can be judged in no way, the script ends with an error,
-- and none that is due has been touched: the caller then asks for each by itself.
local ttl_index = KEYS[1]
local retention_ms, trace = ARGV[1], ARGV[2]

local now = now_ms()
local outcomes = reclaim(tag_of_key(ttl_index), { unpack(ARGV, 3) }, now, retention_ms, { trace = trace })
return { 'JUDGED', ms_text(now), unpack(flat_outcomes(outcomes)) }
