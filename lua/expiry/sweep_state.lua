#!lua flags=no-writes
-- sweep_state: which instance sweeps a partition, and what is due there.
--
-- KEYS[1]   lease          string, the token of the instance that sweeps the partition
-- KEYS[2]   ttl_index      zset, score = reclaim deadline in ms
-- RETURNS   STATE now_ms holder? lapses_in_ms indexed:int due:int oldest_due_ms? next_deadline_ms? quarantined:int
--             awaiting:int oldest_awaiting_ms?
-- BOUND     two entries of the index
-- EMITS     nothing
-- @include  keys, sweep_figures, time
--
-- holder, oldest_due_ms, next_deadline_ms and oldest_awaiting_ms are empty if there is none. awaiting counts the holds
-- that an operator has to clean up.
local lease, ttl_index = KEYS[1], KEYS[2]

local now = time.now_ms()
local due, oldest = sweep_figures.due_count(ttl_index, now)
local quarantined, awaiting, oldest_awaiting = sweep_figures.set_aside(keys.tag_of(ttl_index), now)
return { 'STATE', time.ms_text(now), redis.call('GET', lease) or '', tostring(redis.call('PTTL', lease)),
  tostring(redis.call('ZCARD', ttl_index)), tostring(due), oldest, sweep_figures.first_score(ttl_index,
  time.ms_text(now)), quarantined, awaiting, oldest_awaiting }
