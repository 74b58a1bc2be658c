#!lua
-- reserve: hold an amount against every budgeted scope, or nothing.
--
-- KEYS[1]   reservation      hash, made by this script
-- KEYS[2]   idempotency      string, the record of this request
-- KEYS[3]   tenant           hash of the owner
-- ARGV[1]   tenant_id        effective tenant
-- ARGV[2]   reservation_id   the id to give
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   unit
-- ARGV[5]   amount           int64 as a decimal string, not negative
-- ARGV[6]   overage_policy   as requested, or empty for the budget's, the tenant's or the protocol's default
-- ARGV[7]   ttl_ms           as requested, or empty for the tenant's default
-- ARGV[8]   grace_ms
-- ARGV[9]   dry_run          1 evaluates only
-- ARGV[10]  idempotency_ttl_ms
-- ARGV[11]  retention_ms     for dead holds that are reclaimed on the way
-- ARGV[12]  key_id           the API key that asks
-- ARGV[13]  request_id
-- ARGV[14]  trace            trace id and flags
-- ARGV[15]  scope_count      number of derived scopes
-- ARGV[...] the derived scopes, root first; then field and value pairs of the record: subject, action, metadata
-- RETURNS   ALLOW fresh|replay reservation_id expires_at_ms remaining_ttl_ms policy (scope balance)* | DENY fresh|replay reason
--           | ALLOW_DRY_RUN fresh|replay (scope balance)* | IDEMPOTENCY_MISMATCH | TENANT_CLOSED | TENANT_SUSPENDED
--           | INVALID_POLICY value | NOT_FOUND | UNIT_MISMATCH scope unit* | BUDGET_FROZEN scope | BUDGET_CLOSED scope
--           | OVERDRAFT_LIMIT_EXCEEDED scope | DEBT_OUTSTANDING scope | BUDGET_EXCEEDED scope remaining | INT64_OVERFLOW scope
--           | RECLAIMED now_ms (outcome detail detail)*
-- EMITS     reservation.denied, budget.exhausted; those of the expiry transition
-- @include  keys, now_ms, int64, idempotency, tenant, budget, append_event, expiry
--
-- A denial is never caused by a dead hold: instead of answering BUDGET_EXCEEDED while something is due in the partition,
-- the script expires up to RECLAIM_LIMIT due entries, reports their outcomes, and decides nothing: the caller runs it again.
local reservation, idempotency, tenant_record = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, reservation_id, fingerprint, unit, amount = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local overage_policy, ttl_ms, grace_ms, dry_run = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local idempotency_ttl_ms, retention_ms, key_id = tonumber(ARGV[10]), ARGV[11], ARGV[12]
local origin = { actor = 'api_key', key = key_id, request = ARGV[13], trace = ARGV[14] }
local first_scope, scope_count = 16, tonumber(ARGV[15])
local first_field = first_scope + scope_count
local RECLAIM_LIMIT = 100
local POLICIES = { REJECT = true, ALLOW_IF_AVAILABLE = true, ALLOW_WITH_OVERDRAFT = true }

local tag = tag_of_key(reservation)
local now = now_ms()

-- The original outcome, with the volatile remaining time of the hold as it is now.
local function replay(parts)
  if parts[1] == 'DENY' then
    return { 'DENY', 'replay', parts[2] }
  end
  local reply, mask, figure
  if parts[1] == 'DRY' then
    reply, mask, figure = { 'ALLOW_DRY_RUN', 'replay' }, parts[2], 3
  else
    local held_id, expires_at = parts[2], tonumber(parts[3])
    local active = redis.call('HGET', reservation_key(tag, held_id), 'st') == 'ACTIVE'
    local remaining_ttl_ms = active and math.max(0, expires_at - now) or 0
    reply = { 'ALLOW', 'replay', held_id, parts[3], ms_text(remaining_ttl_ms), parts[4] }
    mask, figure = parts[5], 6
  end
  for i = 1, #mask do
    if string.sub(mask, i, i) == '1' then
      reply[#reply + 1] = ARGV[first_scope + i - 1]
      reply[#reply + 1] = parts[figure]
      figure = figure + 1
    end
  end
  return reply
end

local earlier = recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  return replay(earlier)
end

-- The budgets of the derived scopes, root first, and the mask of the scopes that have one.
local function read_budgets()
  local budgets, mask = {}, {}
  for i = 0, scope_count - 1 do
    local budget = read_budget(tag, unit, ARGV[first_scope + i])
    budgets[#budgets + 1] = budget
    mask[#mask + 1] = budget and '1' or '0'
  end
  return budgets, table.concat(mask)
end

-- No budget in this unit: a wrong unit when some scope has a budget in another one, else none at all.
local function missing_budget()
  for i = scope_count - 1, 0, -1 do
    local scope, units = ARGV[first_scope + i], {}
    for _, other in ipairs({ 'USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS' }) do
      if redis.call('EXISTS', budget_key(tag, other, scope)) == 1 then
        units[#units + 1] = other
      end
    end
    if #units > 0 then
      return { 'UNIT_MISMATCH', scope, unpack(units) }
    end
  end
  return { 'NOT_FOUND' }
end

-- The first refusal among the budgets, by precedence: status, over-limit, debt, amount; root first within each.
local function refusal_of(budgets)
  for _, budget in ipairs(budgets) do
    if budget.status ~= 'ACTIVE' then
      return { budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN', budget.scope, budget.remaining }
    end
  end
  for _, budget in ipairs(budgets) do
    if budget_over_limit(budget) then
      return { 'OVERDRAFT_LIMIT_EXCEEDED', budget.scope, budget.remaining }
    end
  end
  for _, budget in ipairs(budgets) do
    if i64_positive(budget.debt) and not i64_positive(budget.overdraft_limit) then
      return { 'DEBT_OUTSTANDING', budget.scope, budget.remaining }
    end
  end
  for _, budget in ipairs(budgets) do
    if i64_less(budget.remaining, amount) then
      return { 'BUDGET_EXCEEDED', budget.scope, budget.remaining }
    end
  end
  return nil
end

local function tell_denial(reason, scope, remaining)
  local figures = { 'unit', unit, 'reason_code', reason, 'requested_amount', amount, 'remaining', remaining or '' }
  for i = first_field, #ARGV, 2 do
    if ARGV[i] ~= 'md' and ARGV[i] ~= 'ik' then
      figures[#figures + 1] = ARGV[i]
      figures[#figures + 1] = ARGV[i + 1]
    end
  end
  append_event(tag, 'reservation.denied', tenant_id, scope, origin, figures)
end

-- A refused dry run is an answer (DENY) that replays; a refused live reserve is an error that is told and not kept.
local function deny(refusal)
  local scope = refusal[2] or ARGV[first_scope + scope_count - 1]
  local reason = refusal[1] == 'NOT_FOUND' and 'BUDGET_NOT_FOUND' or refusal[1]
  tell_denial(reason, scope, refusal[3])
  if not dry_run then
    return refusal
  end
  remember(idempotency, fingerprint, { 'DENY', reason }, ms_text(idempotency_ttl_ms))
  return { 'DENY', 'fresh', reason }
end

local tenant = read_tenant(tenant_record)
if tenant and tenant.status == 'SUSPENDED' then
  return { 'TENANT_SUSPENDED' }
elseif tenant and tenant.status == 'CLOSED' then
  return deny({ 'TENANT_CLOSED' })
end

local budgets, mask = read_budgets()
if #budgets == 0 then
  local missing = missing_budget()
  if missing[1] == 'NOT_FOUND' then
    return deny(missing)
  end
  return missing
end

if overage_policy == '' then
  overage_policy = tenant and tenant.overage_policy or 'ALLOW_IF_AVAILABLE'
  for _, budget in ipairs(budgets) do
    overage_policy = budget.commit_overage_policy or overage_policy
  end
end
if not POLICIES[overage_policy] then
  return { 'INVALID_POLICY', overage_policy }
end

local refusal = refusal_of(budgets)
if refusal and refusal[1] == 'BUDGET_EXCEEDED' then
  local outcomes = reclaim_due(tag, now, RECLAIM_LIMIT, retention_ms, origin)
  if #outcomes > 0 then
    return { 'RECLAIMED', ms_text(now), unpack(outcomes) }
  end
end
if refusal then
  return deny(refusal)
end

if not ttl_ms then
  ttl_ms = tenant and tenant.default_ttl_ms or 60000
end
if tenant then
  ttl_ms = math.min(ttl_ms, tenant.max_ttl_ms)
end
local expires_at = now + ttl_ms

local exhausted = {}
for _, budget in ipairs(budgets) do
  local had_some = i64_positive(budget.remaining)
  budget.remaining = i64_sub(budget.remaining, amount)
  budget.reserved = i64_add(budget.reserved, amount)
  if not budget.remaining or not budget.reserved then
    return { 'INT64_OVERFLOW', budget.scope }
  end
  if had_some and budget.remaining == '0' then
    exhausted[#exhausted + 1] = budget
  end
end

if #exhausted > 0 then
  require_event_log(tag)
end

-- Nothing is refused below this line.
if dry_run then
  local reply, parts = { 'ALLOW_DRY_RUN', 'fresh' }, { 'DRY', mask }
  for _, budget in ipairs(budgets) do
    local text = balance_text(budget)
    reply[#reply + 1] = budget.scope
    reply[#reply + 1] = text
    parts[#parts + 1] = text
  end
  remember(idempotency, fingerprint, parts, ms_text(idempotency_ttl_ms))
  return reply
end

-- The indexes come first: where one is damaged the script ends here, before a figure has moved.
redis.call('ZADD', ttl_index_key(tag), ms_text(expires_at + grace_ms), reservation_id)
redis.call('ZADD', reservation_index_key(tag, tenant_id), ms_text(now), reservation_id)
local expires_text = ms_text(expires_at)
local reply = { 'ALLOW', 'fresh', reservation_id, expires_text, ms_text(ttl_ms), overage_policy }
local parts = { 'ALLOW', reservation_id, expires_text, overage_policy, mask }
for _, budget in ipairs(budgets) do
  redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
  local text = balance_text(budget)
  reply[#reply + 1] = budget.scope
  reply[#reply + 1] = text
  parts[#parts + 1] = text
end
redis.call('HSET', reservation, 'st', 'ACTIVE', 'tn', tenant_id, 'un', unit, 'am', amount, 'op', overage_policy,
  'bm', mask, 'ca', ms_text(now), 'ex', expires_text, 'gr', ARGV[8], 'mx', ms_text(tenant and tenant.max_extensions or 10),
  'ki', key_id, unpack(ARGV, first_field))
for _, budget in ipairs(exhausted) do
  append_event(tag, 'budget.exhausted', tenant_id, budget.scope, origin,
    { 'unit', unit, 'reservation_id', reservation_id, 'allocated', budget.allocated, 'remaining', budget.remaining,
      'spent', budget.spent, 'reserved', budget.reserved })
end
remember(idempotency, fingerprint, parts, ms_text(math.max(idempotency_ttl_ms, ttl_ms + grace_ms)))
return reply
