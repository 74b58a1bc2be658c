#!lua
-- create_budget: create a ledger for one (scope, unit).
--
-- KEYS[1]   budget           hash, created by this script
-- KEYS[2]   budget_index     sorted set of the tenant's budgets, as lib/scope_tree names them
-- KEYS[3]   tenant           hash of the owner
-- ARGV[1]   tenant_id
-- ARGV[2]   ledger_id        the new id
-- ARGV[3]   scope            canonical
-- ARGV[4]   unit
-- ARGV[5]   allocated        int64 as a decimal string, not negative
-- ARGV[6]   overdraft_limit  same
-- ARGV[7-10] origin           actor is api_key or admin_on_behalf_of
-- ARGV[11]  max_budgets      the deployment's limit, 0 for none
-- ARGV[12]  period_start     ms, or empty for now
-- ARGV[13]  period_end       ms, or empty for a budget without a period
-- ARGV[...] field and value pairs of the record: commit_overage_policy, rollover_policy, metadata
-- RETURNS   CREATED record{} | TENANT_NOT_FOUND | TENANT_SUSPENDED | TENANT_CLOSED | DUPLICATE
--           | INVALID_PERIOD reason:ENDED|NOT_BEGUN|TOO_SHORT | LIMIT_EXCEEDED limit allowed:int used:int
-- BOUND     one budget
-- EMITS     budget.created
-- @include  audit_log, budget_birth, budget_figures, keys, owned_counts, period_starts, tenant_state, time
local budget, budget_index, tenant = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, ledger_id, scope, unit, allocated, overdraft_limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  ARGV[5], ARGV[6]
local origin = { actor = ARGV[7], key = ARGV[8], request = ARGV[9], trace = ARGV[10] }
local max_budgets, first_field = ARGV[11], 14

local tag = keys.tag_of(budget)
local now = time.now_ms()

local owner = tenant_state.read_tenant(tenant)
if not owner then
  return { 'TENANT_NOT_FOUND' }
end
if owner.status ~= 'ACTIVE' then
  return { 'TENANT_' .. owner.status }
end
if budget_figures.read_budget(tag, unit, scope) then
  return { 'DUPLICATE' }
end
local period, reason = period_starts.new_period(tag, ARGV[12], ARGV[13], now)
if reason then
  return { 'INVALID_PERIOD', reason }
end
local refusal = owned_counts.count_refusal(tag, tenant_id, 'budgets', max_budgets, budget_index)
if refusal then
  return refusal
end
budget_birth.require_places(tag, tenant_id)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
budget_birth.make(tag,
  { key = budget, tenant_id = tenant_id, ledger_id = ledger_id, scope = scope, unit = unit, allocated = allocated,
  overdraft_limit = overdraft_limit, fields = { unpack(ARGV, first_field) }, period = period }, now, origin)
audit_log.append_audit(tag, 'createBudget', 201, tenant_id, 'budget', ledger_id, origin,
  { 'scope', scope, 'unit', unit, 'allocated', allocated, 'overdraft_limit', overdraft_limit,
    'period_start', period and period.starts or '', 'period_end', period and period.ends or '' })
return { 'CREATED', unpack(redis.call('HGETALL', budget)) }
