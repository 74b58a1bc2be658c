-- listed_budget: a budget as lists show it.
-- @include keys, listing, period, scope_tree, window_record

local function add_current_windows(list, key, now)
  local f = redis.call('HMGET', key, 'windows', 'status')
  if f[1] then
    list[#list + 1], list[#list + 2] = 'windows', window_record.windows_text(window_record.current_windows(key, f[1], f[2], now))
  end
end

-- Appends a budget to the reply of a list. Returns its bytes. A member of the index that names no budget stands in place of its scope.
local function append_budget(reply, tag, member, now)
  local scope, unit = scope_tree.budget_of_member(member)
  if not scope then
    scope, unit = member, ''
  end
  local key, extra = keys.budget(tag, unit, scope), { 'scope', scope, 'unit', unit }
  -- Of two values of a field the later one counts. A damaged budget is listed as it is, and whoever reads the list reports it.
  pcall(period.add_current_fields, extra, key, scope, now)
  pcall(add_current_windows, extra, key, now)
  return listing.append_record(reply, key, 'budget', extra)
end

return { append_budget = append_budget }
