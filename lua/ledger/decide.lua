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
-- @include  action_quota, action_rules, admission, budget_templates, denial, emit_denial, expiry, grouped, idempotency_record, keys,
--           policy_search, run_time, tenant_state
--
-- If a budget's state or a closed tenant would refuse the reserve, the answer is DENY. A wrong unit or a suspended tenant is an error.
-- As in reserve, an expired hold never causes a denial: the script reclaims due holds first, and the caller runs it again.
local idempotency, tenant_record = KEYS[1], KEYS[2]
local tenant_id, fingerprint, unit, amount = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idempotency_ttl_ms, retention_ms = ARGV[5], ARGV[6]
local origin = { actor = 'api_key', key = ARGV[7], request = ARGV[8], trace = ARGV[9] }
local action_facts, max_budgets, scopes = ARGV[10], ARGV[11], { unpack(ARGV, 13, 12 + tonumber(ARGV[12])) }
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

local function answer(word, detail)
  idempotency_record.remember(idempotency, fingerprint, { word, detail }, idempotency_ttl_ms)
  return { word, 'fresh', detail }
end

local function decline(refusal, policy)
  -- The protocol has no event for throttling.
  if denial.reason_of(refusal) ~= 'LIMIT_EXCEEDED' then
    emit_denial(tag, tenant_id, scopes[#scopes], origin, unit, amount, refusal, { unpack(ARGV, first_field) }, true)
  end
  local parts = denial.denial_parts(refusal, policy, ARGV, first_field)
  idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
  return denial.denial_reply(parts, 'fresh')
end

local tenant = tenant_state.read_tenant(tenant_record)
if tenant and tenant.status == 'SUSPENDED' then
  return { 'TENANT_SUSPENDED' }
elseif tenant and tenant.status == 'CLOSED' then
  return decline({ 'TENANT_CLOSED' })
end

if action_facts == '' then
  return { 'UNDECLARED_KIND' }
end
local policy = tenant and tenant.has_policies and policy_search.governing_policy(tag, tenant_id, scopes, now)
local unpermitted = action_rules.action_refusal(policy, scopes, ARGV, first_field)
if unpermitted then
  return decline(unpermitted, policy)
end
local exhausted = action_quota.quota_refusal(group, tag, tenant_id, scopes, policy, action_facts, ARGV, first_field, now)
if exhausted and exhausted[1] == 'MISSING_RUN_ID' then
  return exhausted
end

local budgets, unborn = {}, nil
if not exhausted then
  local _, unplanned
  budgets, _, unborn, unplanned = admission.budgets_at(group, tag, unit, scopes, tenant_id, tenant, now)
  if unplanned then
    return unplanned
  end
end
if #budgets == 0 and not exhausted then
  local missing = admission.missing_budget(tag, scopes)
  if missing[1] == 'NOT_FOUND' then
    return decline(missing, policy)
  end
  return missing
end

local refusal = exhausted or admission.hold_refusal(budgets, amount, now)
  or budget_templates.limit_refusal(group, tag, tenant_id, unborn, max_budgets)
if refusal and (refusal[1] == 'BUDGET_EXCEEDED' or refusal[4] == 'per_run') then
  local first = expiry.reclaimed(group, tag, now, retention_ms, origin)
  if first then
    return first
  end
end
if refusal then
  return decline(refusal, policy)
end

-- Nothing is refused below this line.
if policy and policy.caps then
  return answer('ALLOW_WITH_CAPS', policy.caps)
end
return answer('ALLOW')
