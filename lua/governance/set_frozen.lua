#!lua flags=allow-oom
-- set_frozen: block new reservations, commits and funding on one ledger, or make it usable again. Existing holds stay.
-- allow-oom: an operator must be able to stop and resume spending when Redis is full.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   status           FROZEN, or ACTIVE
-- ARGV[5]   reason           or empty
-- ARGV[6]   metadata         JSON text, or empty; reason and metadata go into the event and the audit row
-- ARGV[7-10] origin           actor is admin
-- RETURNS   CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | BUDGET_FROZEN | ALREADY_ACTIVE
-- BOUND     one budget
-- EMITS     budget.frozen, budget.unfrozen; those of a rollover
-- @include  audit_log, event_writer, governed_budget, keys, time, waking
local budget_record = KEYS[1]
local tenant_id, scope, unit, status, reason, metadata = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local origin = { actor = ARGV[7], key = ARGV[8], request = ARGV[9], trace = ARGV[10] }

local tag, freezes = keys.tag_of(budget_record), status == 'FROZEN'

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status == status then
  return { freezes and 'BUDGET_FROZEN' or 'ALREADY_ACTIVE' }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', budget_record, 'status', status, 'updated_at', time.ms_text(budget.now))
if freezes and budget.waiting then
  waking.wake_waiters(budget_record)
end
local figures = { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'STATUS_CHANGE',
  'previous_status', budget.status, 'new_status', status, 'reason', reason, 'metadata', metadata }
local details = { 'scope', scope, 'unit', unit, 'reason', reason, 'metadata', metadata }
if freezes then
  event_writer.append_event(tag, 'budget.frozen', tenant_id, scope, origin, figures)
  audit_log.append_audit(tag, 'freezeBudget', 200, tenant_id, 'budget', budget.ledger_id, origin, details)
else
  event_writer.append_event(tag, 'budget.unfrozen', tenant_id, scope, origin, figures)
  audit_log.append_audit(tag, 'unfreezeBudget', 200, tenant_id, 'budget', budget.ledger_id, origin, details)
end
return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
