#!lua flags=allow-oom
-- decide_quarantined: an operator's decision on a reservation in quarantine: check it again, or release it as it is.
-- It carries allow-oom because it returns budget and must run when Redis is full.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- ARGV[2]   action           retry or release
-- ARGV[3]   reason           free text, or empty
-- ARGV[4]   retention_ms     how long the ended record is kept for the audit view
-- ARGV[5]   request_id
-- ARGV[6]   trace            trace id and flags, then the sender: see lib/audit_log
-- ARGV[7]   key_id           the operator; empty for the admin key
-- RETURNS   RETRIED now_ms word detail? second_detail?
--           | RELEASED now_ms tenant amount? unit? returned_count returned_scopes* kept_count kept(scope reason)*
--           | NOT_FOUND
-- BOUND     scopes of one subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- EMITS     custom.reservation.quarantine_decided, budget.threshold_crossed; those of the expiry transition
-- @include  audit_log, damage, damaged_release, event_writer, expiry, field, hold_record, journal, keys,
--           returnable, time
--
-- A retry returns the reservation to its index of deadlines and checks it at once; if it is still damaged, it stays in
-- quarantine. A release returns what it can to the budgets and ends the reservation, whatever its record lacks. If
-- there is no record, it only removes the entry. A reservation that has been settled since is not released again: only
-- its entry is removed. The record is valid afterwards, with what is known of it.
local reservation = KEYS[1]
local reservation_id, action, reason, retention_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local origin = { actor = 'admin', key = ARGV[7], request = ARGV[5], trace = ARGV[6] }

local tag = keys.tag_of(reservation)
local entry = redis.call('HGET', keys.quarantine(tag), reservation_id)
if not entry then
  return { 'NOT_FOUND' }
end
local readable, hold = pcall(hold_record.load_hold, reservation)
readable = readable and hold ~= nil
local owner, created_at
if readable then
  owner, created_at = damage.owner_of(tag, reservation_id, hold.tenant)
end
local tenant = owner or '__system__'
local now = time.now_ms()
event_writer.require_event_log(tag)
journal.require_journal(tag)
audit_log.require_audit_log(tag)
local quarantine_reason = string.match(entry, '^%S+') or ''

local function emit_decision(outcome, returned)
  local figures = damaged_release.decision_figures(reservation_id, action, outcome, quarantine_reason, reason, returned)
  event_writer.append_event(tag, 'custom.reservation.quarantine_decided', tenant, nil, origin, figures)
  audit_log.append_audit(tag, 'decideQuarantined', 200, tenant, 'reservation', reservation_id, origin, figures)
end

-- Nothing is refused below this line.
if action == 'retry' then
  local index = readable and hold_record.deadline_index_key(tag, hold) or keys.ttl_index(tag)
  redis.call('ZADD', index, 0, reservation_id)
  local outcome = expiry.reclaim(tag, { reservation_id }, now, retention_ms,
    { request = origin.request, trace = origin.trace }, index)[1]
  if outcome[1] ~= 'QUARANTINED' then
    redis.call('HDEL', keys.quarantine(tag), reservation_id)
    redis.pcall('HDEL', reservation, field.quarantined_at, field.quarantine_reason)
  end
  emit_decision(outcome.charge and 'EXPIRED' or outcome[1], '')
  return { 'RETRIED', time.ms_text(now), outcome[1], outcome[2] or '', outcome[3] or '' }
end

hold_record.remove_deadlines(tag, reservation_id)
redis.call('HDEL', keys.quarantine(tag), reservation_id)
if not readable or damage.known_state(reservation, hold.state) ~= 'ACTIVE' then
  if readable then
    damaged_release.mend_ended(tag, reservation_id, hold, owner, created_at)
  end
  emit_decision('DROPPED', '')
  return { 'RELEASED', time.ms_text(now), tenant, '', '', '0', '0' }
end
local refunded, kept = damaged_release.release_damaged(tag, reservation_id, hold, owner, created_at,
  origin.key == '' and 'admin' or origin.key, reason ~= '' and reason or 'quarantine', now, retention_ms, origin)
emit_decision('RELEASED', #refunded > 0 and hold.amount or '')
return returnable.append_returnable({ 'RELEASED', time.ms_text(now), tenant }, hold, refunded, kept)
