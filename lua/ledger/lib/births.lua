-- births: makes the budgets that a request misses and templates have.
-- @include budget_birth, credit_grant, keys, shared_budgets
--
-- `unborn` is the third value of admission.budgets_at.

-- Called before the first write.
local function require_births(tag, tenant_id, unborn)
  if unborn then
    budget_birth.require_places(tag, tenant_id)
    for _, budget in ipairs(unborn) do
      if budget.birth.plan then
        credit_grant.require_places(tag, budget.birth.unit, budget.scope)
      end
    end
  end
end

-- Makes the budgets, for this call of the run and those behind it. A rehearsal only lets the calls behind it have them.
local function give_birth(group, tag, unborn, now, request_id, trace)
  for i = 1, unborn and #unborn or 0 do
    local budget = unborn[i]
    if group.rehearses then
      group.rehearsed_births = (group.rehearsed_births or 0) + 1
    else
      local birth, origin = budget.birth, { actor = 'system', request = request_id, trace = trace }
      budget_birth.make(tag, birth, now, origin)
      if birth.plan then
        credit_grant.write_of_template(tag, birth.tenant_id, birth.unit, birth.plan, nil, origin, now)
      end
      redis.pcall('INCR', keys.born(tag))
    end
    budget.birth = nil
    shared_budgets.adopt(group, budget)
  end
end

return { give_birth = give_birth, require_births = require_births }
