-- granted_credits: what grants of credits make of a budget, in memory.
-- @include budget_figures, credit_record, int64
--
-- A grant has the `id`, `amount`, `name`, `category`, `priority`, `starts`, `ends`, `notify_before_ms` and `metadata`
-- of a credit: instants as numbers, the rest as texts. `ends` is nil for none, a text empty.

local function credit_of(grant)
  local notify_before_ms = grant.ends and tonumber(grant.notify_before_ms)
  return { id = grant.id, is_active = false, left = int64.figure(grant.amount), priority = tonumber(grant.priority),
    starts = grant.starts, ends = grant.ends,
    notice = notify_before_ms and math.max(0, grant.ends - notify_before_ms) or nil }
end

-- The refusal of grants to a budget, or nil: TOO_MANY_CREDITS, INT64_OVERFLOW.
local function refusal(budget, grants)
  local credits = budget.credits_text and credit_record.parsed(budget.credits_text) or { list = {}, pins = {} }
  if #credits.list + #credits.pins + #grants > credit_record.MOST then
    return { 'TOO_MANY_CREDITS' }
  end
  local allocated = budget.allocated
  for _, grant in ipairs(grants) do
    allocated = allocated and int64.add(allocated, grant.amount)
  end
  return not (allocated and int64.add(budget.spent, budget.debt)) and { 'INT64_OVERFLOW' } or nil
end

-- The budget with these grants: its `figures` and `credits`, with the `effects` of those that start at once. The
-- `budget` itself stays as it is.
local function plan(budget, grants, now)
  local credits = budget.credits_text and credit_record.parsed(budget.credits_text)
  for _, grant in ipairs(grants) do
    credits = credit_record.with(credits, credit_of(grant))
  end
  local figures = budget_figures.figures_of(budget)
  local passed, effects = credit_record.pass(figures, credits, now)
  return { budget = budget, grants = grants, figures = figures, credits = passed, effects = effects }
end

return { plan = plan, refusal = refusal }
