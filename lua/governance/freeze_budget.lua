#!lua flags=allow-oom
-- freeze_budget: block new reservations, commits and funding on one ledger. Existing holds stay.
-- allow-oom: an operator must be able to stop and resume spending when Redis is full.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   reason           or empty
-- ARGV[5]   metadata         JSON text, or empty; reason and metadata go into the event and the audit row
-- ARGV[6]   actor            admin
-- ARGV[7]   key_id           empty for an operator
-- ARGV[8]   request_id
-- ARGV[9]   trace            trace id and flags, source address, user agent: see lib/audit_log
-- RETURNS   CHANGED record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED | BUDGET_FROZEN
-- BOUND     one budget
-- EMITS     budget.frozen; those of a rollover
-- @include  audit_log, event_writer, governed_budget, keys, time, waking
local budget_record = KEYS[1]
local tenant_id, scope, unit, reason, metadata = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status == 'FROZEN' then
  return { 'BUDGET_FROZEN' }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', budget_record, 'status', 'FROZEN', 'updated_at', time.ms_text(budget.now))
if budget.waiting then
  waking.wake_waiters(budget_record)
end
event_writer.append_event(tag, 'budget.frozen', tenant_id, scope, origin,
  { 'ledger_id', budget.ledger_id, 'unit', unit, 'operation', 'STATUS_CHANGE', 'previous_status', 'ACTIVE', 'new_status', 'FROZEN',
    'reason', reason, 'metadata', metadata })
audit_log.append_audit(tag, 'freezeBudget', 200, tenant_id, 'budget', budget.ledger_id, origin,
  { 'scope', scope, 'unit', unit, 'reason', reason, 'metadata', metadata })
return { 'CHANGED', unpack(redis.call('HGETALL', budget_record)) }
