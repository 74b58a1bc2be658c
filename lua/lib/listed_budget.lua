-- listed_budget: a budget as lists show it.
-- @include keys: budget_key
-- @include period: add_current_fields
-- @include listing: append_record

-- Appends a budget to the reply of a list. Returns its bytes.
local function append_budget(reply, tag, scope, unit, now)
  local key, extra = budget_key(tag, unit, scope), { 'scope', scope, 'unit', unit }
  -- Of two values of a field the later one counts. A damaged budget is listed as it is, and whoever reads the list reports it.
  pcall(add_current_fields, extra, key, scope, now)
  return append_record(reply, key, 'budget', extra)
end
