-- scope_tree: which scopes lie below another, and the order in which the index of a tenant's budgets has them.
-- src/ledger/scopes.ts has the same rules.

-- Whether a scope is the one given or below it; with a slash at the end of the given one, only whether it is below.
-- Segments count as a whole: workspace:eng-2 is not below workspace:eng. Every scope is below an empty text.
local function is_within(scope, above)
  local start = (above == '' or string.sub(above, -1) == '/') and above or above .. '/'
  return scope == above or string.sub(scope, 1, #start) == start
end

-- A scope, or a budget's `scope unit`, as the index has it: with ! for each slash. A space and ! sort before every
-- character of a segment, so the budgets of a scope are followed by all below it, and then by its next sibling.
local function in_tree_order(text)
  return (string.gsub(text, '/', '!'))
end

-- The scope and unit of a budget in the index.
local function budget_of_member(member)
  return string.match((string.gsub(member, '!', '/')), '^(%S+) (%S+)$')
end

return { budget_of_member = budget_of_member, in_tree_order = in_tree_order, is_within = is_within }
