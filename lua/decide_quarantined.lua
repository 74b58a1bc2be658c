#!lua flags=allow-oom
-- decide_quarantined: an operator's decision on a reservation in quarantine: to have it judged again, or to release it as it is.
-- It carries allow-oom because it gives budget back and must go on when Redis is full.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- ARGV[2]   action           retry or release
-- ARGV[3]   reason           free text, or empty
-- ARGV[4]   retention_ms     how long the ended record stays for the audit trail
-- ARGV[5]   request_id
-- ARGV[6]   trace            trace id and flags, then the sender: see lib/append_audit
-- RETURNS   RETRIED now_ms (the outcome of expire) | RELEASED now_ms tenant amount unit returned_count scope* kept_count (scope reason)*
--           | NOT_FOUND
-- BOUND     scopes of one subject (at most 6)
-- EMITS     custom.reservation.quarantine_decided; those of the expiry transition
-- @include  keys, now_ms, int64, hold, budget, expiry, ended, append_event, append_audit, quarantine_release, owned
--
-- A retry puts the reservation back before the sweeper and judges it at once: what is still damaged stays in quarantine. A
-- release gives back what can be given back and ends the reservation, whatever its record lacks; where no record is left,
-- it only takes the entry away. A reservation that was settled meanwhile is not released again: only its entry goes.
local reservation = KEYS[1]
local reservation_id, action, reason, retention_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local origin = { actor = 'admin', request = ARGV[5], trace = ARGV[6] }

local tag = tag_of_key(reservation)
local now = now_ms()
local entry = redis.call('HGET', quarantine_key(tag), reservation_id)
if not entry then
  return { 'NOT_FOUND' }
end
local readable, hold = pcall(load_hold, reservation)
local tenant = readable and hold and hold.tenant or '__system__'
require_event_log(tag)
require_audit_log(tag)

local function tell(outcome, returned)
  local figures = { 'reservation_id', reservation_id, 'action', action, 'outcome', outcome, 'quarantine_reason',
    string.match(entry, '^%S+') or '', 'reason', reason, 'returned_amount', returned }
  append_event(tag, 'custom.reservation.quarantine_decided', tenant, nil, origin, figures)
  append_audit(tag, 'decideQuarantined', 200, tenant, 'reservation', reservation_id, origin, figures)
end

-- Nothing is refused below this line.
if action == 'retry' then
  redis.call('ZADD', ttl_index_key(tag), 0, reservation_id)
  local outcome = reclaim(tag, { reservation_id }, now, retention_ms, { request = origin.request, trace = origin.trace })[1]
  if outcome[1] ~= 'QUARANTINED' then
    redis.call('HDEL', quarantine_key(tag), reservation_id)
    if outcome[2] == 'in_grace_period' or outcome[2] == 'awaiting_cleanup' then
      redis.call('HDEL', reservation, 'qa', 'qr')
    end
  end
  tell(outcome[1], '')
  return { 'RETRIED', ms_text(now), unpack(outcome) }
end

redis.call('ZREM', ttl_index_key(tag), reservation_id)
redis.call('ZREM', cleanup_index_key(tag), reservation_id)
redis.call('HDEL', quarantine_key(tag), reservation_id)
local settled = readable and hold and hold.state ~= 'ACTIVE' and HOLD_STATES[hold.state]
if not readable or not hold or settled then
  tell('DROPPED', '')
  return { 'RELEASED', ms_text(now), tenant, '', '', '0', '0' }
end
local refunded, kept = returnable_budgets(tag, hold)
for _, budget in ipairs(refunded) do
  redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
end
redis.call('HSET', reservation, 'st', 'RELEASED', 'fa', ms_text(now), 'eb', 'admin', 'rr', reason ~= '' and reason or 'quarantine')
if hold.state == 'ACTIVE' then
  count_ended(tag, hold.tenant, 1)
end
keep_ended(tag, reservation_id, retention_ms)
tell('RELEASED', #refunded > 0 and hold.amount or '')
return tell_returnable({ 'RELEASED', ms_text(now), tenant }, hold, refunded, kept)
