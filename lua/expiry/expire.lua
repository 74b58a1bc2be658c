#!lua flags=allow-oom
-- expire: reclaim one abandoned hold, if it is due. Only the script decides that, by Redis' clock.
-- It carries allow-oom because it returns budget and must run when Redis is full.
--
-- KEYS[1]   reservation     hash
-- ARGV[1]   reservation_id  its id, as in the TTL index
-- ARGV[2]   retention_ms    how long the ended record is kept for the audit view
-- ARGV[3]   trace           trace id and flags of this sweep's events
-- RETURNS   NOT_FOUND | SKIP reason [deadline_ms] | EXPIRED tenant deadline_ms now_ms
--           | CHARGED tenant deadline_ms now_ms | QUARANTINED reason tenant? [again:again]
-- BOUND     one hold, at the scopes of its subject (at most 6)
-- EMITS     those of the expiry transition
-- @include  expiry, keys, time
--
-- NOT_FOUND and SKIP with a state remove the index entry and change no budget. SKIP in_grace_period only corrects the
-- index entry, if its score is wrong. CHARGED is EXPIRED with a charge. SKIP awaiting_cleanup leaves the hold to an
-- operator: its entry is in the cleanup index.
-- Extra arguments are ignored: no clock is accepted from outside.
local reservation = KEYS[1]
local reservation_id, retention_ms, trace = ARGV[1], ARGV[2], ARGV[3]

local now = time.now_ms()
local outcome = expiry.reclaim(keys.tag_of(reservation), { reservation_id }, now, retention_ms, { trace = trace })[1]
outcome[4] = (outcome[1] == 'EXPIRED' or outcome[1] == 'CHARGED') and time.ms_text(now) or nil
return outcome
