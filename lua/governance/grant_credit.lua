#!lua
-- grant_credit: give a budget a credit, which burns before its own allocation, and ends.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   idempotency      string, the record of this request
-- KEYS[3]   credit           hash, created by this script, of the id to assign
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   amount           int64 as a decimal string, positive
-- ARGV[5]   name
-- ARGV[6]   category         or empty
-- ARGV[7]   priority         0 burns first, 100 last
-- ARGV[8]   effective_at     ms, or empty for now
-- ARGV[9]   expires_at       ms, or empty for no end
-- ARGV[10]  notify_before_ms how long before its end custom.credit.ending comes, or empty for never
-- ARGV[11]  metadata         JSON text, or empty
-- ARGV[12]  fingerprint      of the canonical payload
-- ARGV[13]  idempotency_ttl_ms
-- ARGV[14]  correlation_id   of a bulk action, or empty
-- ARGV[15-18] origin           actor is admin or admin_on_behalf_of
-- RETURNS   GRANTED answer:fresh|replay credit_id state created_ms effective_ms remaining | IDEMPOTENCY_MISMATCH
--           | NOT_FOUND | TENANT_CLOSED | BUDGET_FROZEN | BUDGET_CLOSED | TOO_MANY_CREDITS | CREDIT_ENDED
--           | INT64_OVERFLOW
-- BOUND     one budget, 64 credits
-- EMITS     custom.credit.granted, custom.credit.started, custom.credit.exhausted, budget.over_limit_exited,
--           budget.threshold_crossed; those of a rollover
-- @include  audit_log, credit_grant, credit_record, governed_budget, granted_credits, idempotency_record, int64, keys,
--           time
--
-- A bulk action has an audit row of its own. A credit that has started repays debt first. CREDIT_ENDED is about an
-- end that is not after its start and now.
local budget_record, idempotency, credit_key = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, scope, unit, amount, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local category, priority, effective_at, expires_at = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local notify_before_ms, metadata, fingerprint, idempotency_ttl_ms = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local origin = { actor = ARGV[15], key = ARGV[16], request = ARGV[17], trace = ARGV[18],
  correlation = ARGV[14] ~= '' and ARGV[14] or nil }

local tag = keys.tag_of(budget_record)

local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  return { 'GRANTED', 'replay', unpack(earlier) }
end

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
elseif budget.status ~= 'ACTIVE' then
  return { 'BUDGET_FROZEN' }
end
local now = budget.now
local starts, ends = tonumber(effective_at) or now, tonumber(expires_at)
if ends and (ends <= now or ends <= starts) then
  return { 'CREDIT_ENDED' }
end
local grant = { id = keys.credit_in(credit_key), amount = amount, name = name, category = category,
  priority = priority, starts = starts, ends = ends, notify_before_ms = notify_before_ms, metadata = metadata }
refusal = granted_credits.refusal(budget, { grant })
if refusal then
  return refusal
end
local plan = granted_credits.plan(budget, { grant }, now)
credit_grant.require_places(tag, unit, scope)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local now_text, starts_text = time.ms_text(now), time.ms_text(starts)
credit_grant.write(tag, tenant_id, unit, plan, origin, now)
if not origin.correlation then
  audit_log.append_audit(tag, 'grantCredit', 201, tenant_id, 'credit', grant.id, origin,
    { 'scope', scope, 'unit', unit, 'amount', amount, 'name', name, 'effective_at', starts_text, 'expires_at',
      expires_at })
end
local granted = plan.credits.list[credit_record.place_of(plan.credits, grant.id)]
local left = granted and int64.text(granted.left) or '0'
local status = not granted and 'EXHAUSTED' or granted.is_active and 'ACTIVE' or 'SCHEDULED'
local parts = { grant.id, status, now_text, starts_text, left }
idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
return { 'GRANTED', 'fresh', unpack(parts) }
