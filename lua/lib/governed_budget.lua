-- governed_budget: the budget that an operation of the governance plane will change.
-- @include keys: tenant_key
-- @include tenant: read_tenant
-- @include budget: read_budget
--
-- Returns the budget, or nil and a refusal: NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED. A closed tenant takes precedence over a closed budget.
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
  budget.ledger_id = redis.call('HGET', budget.key, 'ledger_id') or ''
  return budget
end
