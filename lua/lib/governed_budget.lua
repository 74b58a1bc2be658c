-- governed_budget: the budget that an operation of the governance plane will change.
-- @include keys: tenant_key
-- @include now_ms: now_ms
-- @include tenant: read_tenant
-- @include budget: read_budget
-- @include rollover: roll_over_if_due
--
-- Returns the budget, or nil and a refusal: NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED. A closed tenant takes precedence over a closed budget.
-- A budget whose period has ended is rolled over first, even if the caller then refuses.
local function governed_budget(tag, unit, scope, tenant_id)
  local budget = read_budget(tag, unit, scope)
  if not budget then
    return nil, { 'NOT_FOUND' }
  end
  local owner = read_tenant(tenant_key(tag, tenant_id))
  if owner and owner.status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  if budget.status == 'CLOSED' then
    return nil, { 'BUDGET_CLOSED' }
  end
  if roll_over_if_due(tag, budget.key, unit, scope, budget.period_end, budget.status, now_ms()) then
    budget = read_budget(tag, unit, scope)
  end
  budget.ledger_id = redis.call('HGET', budget.key, 'ledger_id') or ''
  return budget
end
