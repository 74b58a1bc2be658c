#!lua
-- decide: answer whether a reserve would be granted now, without holding anything.
--
-- KEYS[1]   idempotency      string, the record of this request
-- KEYS[2]   tenant           hash of the owner
-- ARGV[1]   tenant_id        effective tenant
-- ARGV[2]   fingerprint      of the canonical payload
-- ARGV[3]   unit
-- ARGV[4]   amount           int64 as a decimal string, not negative
-- ARGV[5]   idempotency_ttl_ms
-- ARGV[6]   retention_ms     how long the records of holds that this run expires are kept
-- ARGV[7]   key_id           the requesting API key
-- ARGV[8]   request_id
-- ARGV[9]   trace            trace id and flags
-- ARGV[10]  action_facts     what the governing policy's quotas need: see lib/action_quota
-- ARGV[11]  max_budgets      the deployment's limit on a tenant's budgets, 0 for none
-- ARGV[12]  scope_count      number of derived scopes
-- ARGV[...] the derived scopes, root first; then field and value pairs, as for reserve: subject, action
-- RETURNS   ALLOW answer:fresh|replay | ALLOW_WITH_CAPS answer:fresh|replay caps
--           | DENY answer:fresh|replay reason [scope remaining policy_id window window_key used limit risk_class]
--           | IDEMPOTENCY_MISMATCH | MISSING_RUN_ID | UNDECLARED_KIND | TENANT_SUSPENDED | UNIT_MISMATCH scope units*
--           | UNPLANNED tenant_id template_id | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     scopes of one subject (at most 6); 100 due holds, if it reclaims
-- ATTESTED  its outcome can become evidence
-- EMITS     reservation.denied; those of the expiry transition
-- @include  admission, denial, emit_denial, grouped, idempotency_record, keys, run_time, tenant_state
--
-- If a budget's state or a closed tenant would refuse the reserve, the answer is DENY. A wrong unit or a suspended
-- tenant is an error.
-- As in reserve, an expired hold never causes a denial: the script reclaims due holds first, and the caller runs it
-- again.
local idempotency, tenant_record = KEYS[1], KEYS[2]
local tenant_id, fingerprint, unit, amount = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idempotency_ttl_ms, scopes = ARGV[5], { unpack(ARGV, 13, 12 + tonumber(ARGV[12])) }
local first_field = 13 + #scopes

local tag = keys.tag_of(idempotency)
local group = grouped.new()
local now = run_time.now(group)

local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  if earlier[1] == 'DENY' then
    return denial.denial_reply(earlier, 'replay')
  end
  return { earlier[1], 'replay', earlier[2] }
end

local plan = admission.REQUEST
plan.tag, plan.now, plan.tenant, plan.way = tag, now, tenant_state.read_tenant(tenant_record), 'question'
plan.subject, plan.amount, plan.overage_policy = { tenant = tenant_id, unit = unit, scopes = scopes }, amount, nil
plan.facts, plan.is_counted, plan.fields, plan.first, plan.waiter = ARGV[10], true, ARGV, first_field, nil
plan.limits = { max_budgets = ARGV[11], retention_ms = ARGV[6] }
plan.key_id, plan.request_id, plan.trace = ARGV[7], ARGV[8], ARGV[9]
local refusal, ending = admission.admit(plan, group)
if ending then
  return ending
end
if refusal then
  -- The protocol has no event for throttling.
  if denial.reason_of(refusal) ~= 'LIMIT_EXCEEDED' then
    emit_denial(tag, tenant_id, scopes[#scopes], admission.origin_of(plan), unit, amount, refusal,
      { unpack(ARGV, first_field) }, true)
  end
  local parts = denial.denial_parts(refusal, plan.policy, ARGV, first_field)
  idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
  return denial.denial_reply(parts, 'fresh')
end

-- Nothing is refused below this line.
local caps = plan.policy and plan.policy.caps or nil
local word = caps and 'ALLOW_WITH_CAPS' or 'ALLOW'
idempotency_record.remember(idempotency, fingerprint, { word, caps }, idempotency_ttl_ms)
return { word, 'fresh', caps }
