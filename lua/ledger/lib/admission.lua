-- admission: whether a reserve, a decision or a direct debit is granted, and the budgets that it draws on.
-- @include action_quota, action_rules, brief_figures, budget_templates, expiry, funds, grouped, keys, owned_counts,
--          policy_rate, policy_search, shared_budgets, template_record, units, waiters
--
-- `scopes` are the derived scopes, root first. A refusal is a list: a status word, then its details.
local OVERAGE_POLICIES = { REJECT = true, ALLOW_IF_AVAILABLE = true, ALLOW_WITH_OVERDRAFT = true }

-- The budgets of the scopes in this unit, root first, and a mask of the scopes that have one. The group shares the
-- budgets. Those that the tenant's templates would make are among them, each with its `birth`, and are the third value
-- if there are any. The fourth value is the reply of the script if one of these templates has no boundaries left, after
-- which the service plans others and calls again.
local function budgets_at(group, tag, unit, scopes, tenant_id, tenant, now)
  local budgets, count, mask, unborn = {}, 0, '', nil
  local templates = tenant and tenant.templates
  for i = 1, #scopes do
    local budget = shared_budgets.budget(group, tag, unit, scopes[i])
    if not budget and templates then
      local birth = budget_templates.birth_at(tag, tenant_id, templates, unit, scopes[i], now)
      if birth and birth.is_unplanned then
        return budgets, mask, unborn, { 'UNPLANNED', tenant_id, birth.template_id }
      elseif birth then
        budget = shared_budgets.parse(birth.key, scopes[i], template_record.fields_of(birth))
        unborn, budget.birth = unborn or {}, birth
        unborn[#unborn + 1] = budget
      end
    end
    if budget then
      count = count + 1
      budgets[count] = budget
    end
    mask = mask .. (budget and '1' or '0')
  end
  return budgets, mask, unborn
end

-- The refusal if no scope has a budget in the unit: UNIT_MISMATCH if a scope has one in another unit, else NOT_FOUND.
local function missing_budget(tag, scopes)
  for i = #scopes, 1, -1 do
    local others = {}
    for _, other in ipairs(units.ALL) do
      if redis.call('EXISTS', keys.budget(tag, other, scopes[i])) == 1 then
        others[#others + 1] = other
      end
    end
    if #others > 0 then
      return { 'UNIT_MISMATCH', scopes[i], unpack(others) }
    end
  end
  return { 'NOT_FOUND' }
end

-- Precedence: the request's own overage policy, the governing policy's, the deepest budget's, the tenant's, the
-- protocol's default.
local function overage_policy_of(requested, policy, budgets, tenant)
  if requested ~= '' then
    return requested
  end
  if policy and policy.overage_policy then
    return policy.overage_policy
  end
  local inherited = tenant and tenant.overage_policy or 'ALLOW_IF_AVAILABLE'
  for _, budget in ipairs(budgets) do
    inherited = budget.commit_overage_policy or inherited
  end
  return inherited
end

-- Appends the balances in an idempotency record to a replayed reply. The record has a mask of the scopes, and a balance
-- for each scope in it.
local function with_balances(reply, scopes, parts, mask_at)
  local mask, figure = parts[mask_at], mask_at + 1
  for i = 1, #mask do
    if string.sub(mask, i, i) == '1' then
      reply[#reply + 1] = scopes[i]
      reply[#reply + 1] = brief_figures.full_balance(parts[figure])
      figure = figure + 1
    end
  end
  return reply
end

-- Who asks, for events. Most requests have none.
local function origin_of(request)
  return { actor = 'api_key', key = request.key_id, request = request.request_id, trace = request.trace }
end

-- The refusal, what the script replies at once instead, and whether a debit is more than what remains.
local function judge(request, group)
  local tag, now, tenant, subject, way = request.tag, request.now, request.tenant, request.subject, request.way
  local tenant_id, scopes, is_counted = subject.tenant, subject.scopes, request.is_counted
  if tenant and tenant.status ~= 'ACTIVE' then
    request.policy = nil
    local refusal = { 'TENANT_' .. tenant.status }
    return refusal, tenant.status == 'SUSPENDED' and refusal or nil
  end
  local fields, first, facts = request.fields, request.first, request.facts
  -- Words that not every caller can get stand in the headers of those that can.
  local invalid
  if facts == '' then
    invalid = { 'UNDECLARED_KIND' }
    return nil, invalid
  end
  local policy = tenant and tenant.has_policies and policy_search.group_policy(group, tag, tenant_id, scopes, now)
  request.policy = policy
  local refusal, counts
  if facts and policy and policy.rules then
    refusal = action_rules.action_refusal(policy, scopes, fields, first)
    if not refusal and is_counted then
      refusal, counts = action_quota.quota_refusal(group, tag, tenant_id, scopes, policy, facts, fields, first, now)
    end
    if refusal then
      return refusal, refusal[1] == 'MISSING_RUN_ID' and refusal or nil
    end
  end
  request.counts = counts
  local budgets, mask, unborn, unplanned = budgets_at(group, tag, subject.unit, scopes, tenant_id, tenant, now)
  if unplanned then
    return nil, unplanned
  end
  request.budgets, request.mask, request.unborn = budgets, mask, unborn
  if #budgets == 0 then
    refusal = missing_budget(tag, scopes)
    return refusal, refusal[1] ~= 'NOT_FOUND' and refusal or nil
  end
  local limits = request.limits
  -- An action that has happened is refused neither for debt nor for an over-limit mark, and only under REJECT for what
  -- does not remain.
  if way == 'debit' then
    refusal = funds.stopped_budget(budgets)
      or unborn and budget_templates.limit_refusal(group, tag, tenant_id, unborn, limits.max_budgets)
    if refusal then
      return refusal
    end
  end
  local overage_policy = request.overage_policy
  if overage_policy then
    overage_policy = overage_policy_of(overage_policy, policy, budgets, tenant)
    if not OVERAGE_POLICIES[overage_policy] then
      invalid = { 'INVALID_POLICY', overage_policy }
      return nil, invalid
    end
    request.overage_policy = overage_policy
  end
  if way == 'debit' then
    local short = funds.short_budget(budgets, request.amount, now)
    return overage_policy == 'REJECT' and short or nil, nil, short
  end
  local waiter = request.waiter
  refusal = funds.hold_refusal(budgets, request.amount, now)
  refusal = refusal or waiter and waiters.refusal(budgets, waiter, now)
    or unborn and budget_templates.limit_refusal(group, tag, tenant_id, unborn, limits.max_budgets)
  if refusal or way ~= 'hold' then
    return refusal or nil
  end
  subject.text_bytes = subject.text_bytes or owned_counts.long_text(subject.levels, 1)
  local owned = grouped.owned(group, tag, tenant_id, limits.max_live, limits.max_stored)
  local text_bytes = subject.text_bytes + owned_counts.long_text(fields, first)
  request.owned, request.text_bytes = owned, text_bytes
  refusal, request.stored_after = owned_counts.reserve_refusal(tag, tenant_id, owned, text_bytes)
  if not refusal and policy and is_counted then
    refusal = policy_rate.rate_refusal(tag, policy, 'reservations', now, group.set and group.set.rates[policy.id])
  end
  return refusal
end

-- Whether the end of a hold could change the answer.
local function depends_on_holds(refusal)
  return refusal[1] == 'BUDGET_EXCEEDED' or refusal[1] == 'KEPT_FOR_WAITER' or refusal[2] == 'live_reservations'
    or refusal[4] == 'per_run'
end

-- The request that is judged: one table for all calls, which come one after the other. A new one for each costs a
-- reserve 6 % of its instructions alone in a run, and 9 % with 16 in a run. Whoever takes it sets all that it has:
--   `tag`, `now`, `tenant`        the time of the run, and the tenant's record if there is one
--   `way`                         hold, debit (what has happened), or question
--   `subject`                     the effective tenant, the unit and the scopes; for a hold, as lua/lib/hold_record.lua
--                                 has it
--   `amount`, `overage_policy`    as requested, or empty; nil if nothing will be charged
--   `facts`                       what quotas need of the action, empty if the service does not know its kind; nil if
--                                 it has happened
--   `is_counted`                  whether it counts as an action of its own
--   `fields`, `first`             the request's field and value pairs, and where they begin
--   `key_id`, `request_id`, `trace`
--   `limits`                      what the deployment says, as in lua/ledger/lib/reserve_terms.lua
--   `waiter`                      the place of a reserve that waits for funds
local REQUEST = {}

-- Judges a request, and returns the refusal, or nil if it is granted. The second value is the reply of the script if it
-- ends here: due holds come first, and the service calls again. The third says that a debit is more than what remains.
-- The request gets the plan: `policy`, `counts`, `budgets` with `mask` and `unborn`, `overage_policy`, and for a hold
-- `owned`, `text_bytes` and `stored_after`.
local function admit(request, group)
  local refusal, reply, short = judge(request, group)
  if not reply and (short or refusal and depends_on_holds(refusal)) then
    reply = expiry.reclaimed(group, request.tag, request.now, request.limits.retention_ms, origin_of(request))
  end
  return refusal, reply, short
end

return { REQUEST = REQUEST, admit = admit, origin_of = origin_of, with_balances = with_balances }
