#!lua
-- fund_budget: change the funds of one ledger: CREDIT, DEBIT, RESET, RESET_SPENT or REPAY_DEBT.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   idempotency      string, the idempotency record of this request
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   operation
-- ARGV[5]   amount           int64 as a decimal string, not negative
-- ARGV[6]   spent            same, or empty; only for RESET_SPENT
-- ARGV[7]   fingerprint      of the canonical payload, or empty if the request has no idempotency key
-- ARGV[8]   idempotency_ttl_ms
-- ARGV[9]   reason           or empty
-- ARGV[10]  metadata         JSON text, or empty; reason and metadata go into the event and the audit row
-- ARGV[11]  actor            api_key or admin_on_behalf_of
-- ARGV[12]  key_id           the calling API key, or empty
-- ARGV[13]  request_id
-- ARGV[14]  retention_ms     how long the records of holds that this run expires are kept
-- ARGV[15]  trace            trace id and flags, source address, user agent: see lib/audit_log
-- RETURNS   FUNDED answer:fresh|replay previous_allocated new_allocated previous_remaining new_remaining previous_debt
--           new_debt previous_spent new_spent timestamp_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND | TENANT_CLOSED
--           | BUDGET_FROZEN | BUDGET_CLOSED | BUDGET_EXCEEDED | INT64_OVERFLOW
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     one budget; 100 due holds, if it reclaims
-- EMITS     budget.funded, budget.debited, budget.reset, budget.reset_spent, budget.debt_repaid, budget.exhausted,
--           budget.over_limit_entered, budget.over_limit_exited, budget.threshold_crossed; those of a rollover;
--           those of the expiry transition
-- @include  audit_log, event_writer, funding, governed_budget, idempotency_record, keys, time
local budget_record, idempotency = KEYS[1], KEYS[2]
local tenant_id, scope, unit, operation, amount, given_spent = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local fingerprint, idempotency_ttl_ms, reason, metadata, retention_ms = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[14]
local origin = { actor = ARGV[11], key = ARGV[12], request = ARGV[13], trace = ARGV[15] }

local tag = keys.tag_of(budget_record)

if fingerprint ~= '' then
  local earlier = idempotency_record.recall(idempotency, fingerprint)
  if earlier == 'MISMATCH' then
    return { 'IDEMPOTENCY_MISMATCH' }
  elseif earlier then
    return { 'FUNDED', 'replay', unpack(earlier) }
  end
end

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
if budget.status ~= 'ACTIVE' then
  return { 'BUDGET_FROZEN' }
end

local planned, refused = funding.planned_funding(budget, operation, amount, given_spent)
local first = funding.reclaimed_before(tag, budget, planned, retention_ms, origin)
if first or not planned then
  return first or refused
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local now = time.ms_text(budget.now)
funding.apply_funding(tag, budget, planned,
  { tenant_id = tenant_id, scope = scope, unit = unit, operation = operation, spent = given_spent, reason = reason,
  metadata = metadata }, now, origin)
audit_log.append_audit(tag, 'fundBudget', 200, tenant_id, 'budget', budget.ledger_id, origin,
  { 'scope', scope, 'unit', unit, 'funding', operation, 'amount', amount, 'reason', reason })
local parts = { budget.allocated, planned.allocated, budget.remaining, planned.remaining, budget.debt, planned.debt,
  budget.spent, planned.spent, now }
if fingerprint ~= '' then
  idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
end
return { 'FUNDED', 'fresh', unpack(parts) }
