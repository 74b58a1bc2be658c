-- births: makes the budgets that a request misses and templates have.
-- @include budget_birth, keys, shared_budgets
--
-- `unborn` is the third value of admission.budgets_at.

-- Called before the first write.
local function require_births(tag, tenant_id, unborn)
  if unborn then
    budget_birth.require_places(tag, tenant_id)
  end
end

-- Makes the budgets, for this call of the run and those behind it. A rehearsal only lets the calls behind it have them.
local function give_birth(group, tag, unborn, now, request_id, trace)
  for i = 1, unborn and #unborn or 0 do
    local budget = unborn[i]
    if group.rehearses then
      group.rehearsed_births = (group.rehearsed_births or 0) + 1
    else
      budget_birth.make(tag, budget.birth, now, { actor = 'system', request = request_id, trace = trace })
      redis.pcall('INCR', keys.born(tag))
    end
    budget.birth = nil
    shared_budgets.adopt(group, budget)
  end
end

return { give_birth = give_birth, require_births = require_births }
