#!lua
-- fund_budget: add funds to one ledger (CREDIT). Outstanding debt is paid first.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   idempotency      string, the record of this request
-- KEYS[3]   tenant           hash of the owner
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   amount           int64 as a decimal string, not negative
-- ARGV[5]   fingerprint      of the canonical payload, or empty when the request names no idempotency key
-- ARGV[6]   idempotency_ttl_ms
-- ARGV[7]   reason           or empty
-- ARGV[8]   metadata         JSON text, or empty; both go into the event
-- ARGV[9]   actor            api_key or admin_on_behalf_of
-- ARGV[10]  key_id           the API key that asks, or empty
-- ARGV[11]  request_id
-- ARGV[12]  trace            trace id and flags
-- RETURNS   FUNDED fresh|replay previous_allocated new_allocated previous_remaining new_remaining previous_debt new_debt
--           previous_spent new_spent timestamp_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND | TENANT_CLOSED | BUDGET_FROZEN
--           | BUDGET_CLOSED | INT64_OVERFLOW
-- EMITS     budget.funded, budget.over_limit_exited
-- @include  keys, now_ms, int64, idempotency, tenant, budget, append_event
--
-- A debt that is paid becomes spent: the consumption that was owed is now paid for. So allocated and remaining both grow by
-- the whole amount, and remaining = allocated - spent - reserved - debt holds. What was missing is filled before anything
-- is free to reserve, because debt had made remaining smaller.
local budget_record, idempotency, tenant = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, scope, unit, amount, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local idempotency_ttl_ms, reason, metadata = ARGV[6], ARGV[7], ARGV[8]
local origin = { actor = ARGV[9], key = ARGV[10], request = ARGV[11], trace = ARGV[12] }

local tag = tag_of_key(budget_record)
local now = ms_text(now_ms())

if fingerprint ~= '' then
  local earlier = recall(idempotency, fingerprint)
  if earlier == 'MISMATCH' then
    return { 'IDEMPOTENCY_MISMATCH' }
  elseif earlier then
    return { 'FUNDED', 'replay', unpack(earlier) }
  end
end

local budget = read_budget(tag, unit, scope)
if not budget then
  return { 'NOT_FOUND' }
end
local owner = read_tenant(tenant)
if owner and owner.status == 'CLOSED' then
  return { 'TENANT_CLOSED' }
end
if budget.status ~= 'ACTIVE' then
  return { budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN' }
end

local repaid = i64_less(budget.debt, amount) and budget.debt or amount
local allocated, remaining = i64_add(budget.allocated, amount), i64_add(budget.remaining, amount)
local debt, spent = i64_sub(budget.debt, repaid), i64_add(budget.spent, repaid)
if not allocated or not remaining or not spent then
  return { 'INT64_OVERFLOW' }
end

-- A mark left by a capped charge says that the scope ran dry; new funds lift it. Debt above its limit stays over limit.
local was_over = budget_over_limit(budget)
local over = budget.is_over_limit
if i64_positive(budget.overdraft_limit) and i64_less(budget.overdraft_limit, debt) then
  over = '1'
elseif i64_positive(amount) or i64_positive(remaining) then
  over = '0'
end

-- Nothing is refused below this line.
redis.call('HSET', budget.key, 'allocated', allocated, 'remaining', remaining, 'debt', debt, 'spent', spent,
  'is_over_limit', over, 'updated_at', now)
append_event(tag, 'budget.funded', tenant_id, scope, origin,
  { 'ledger_id', redis.call('HGET', budget.key, 'ledger_id'), 'unit', unit, 'operation', 'CREDIT',
    'previous_allocated', budget.allocated, 'new_allocated', allocated, 'previous_remaining', budget.remaining,
    'new_remaining', remaining, 'previous_debt', budget.debt, 'new_debt', debt, 'previous_spent', budget.spent,
    'new_spent', spent, 'previous_reserved', budget.reserved, 'new_reserved', budget.reserved,
    'previous_status', budget.status, 'new_status', budget.status, 'reason', reason, 'metadata', metadata })
if was_over and over == '0' then
  append_event(tag, 'budget.over_limit_exited', tenant_id, scope, origin,
    { 'unit', unit, 'debt', debt, 'overdraft_limit', budget.overdraft_limit, 'is_over_limit', '0' })
end
local parts = { budget.allocated, allocated, budget.remaining, remaining, budget.debt, debt, budget.spent, spent, now }
if fingerprint ~= '' then
  remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
end
return { 'FUNDED', 'fresh', unpack(parts) }
