-- listed_budget: a budget as lists show it.
-- @include keys, period, scope_tree, window_record

-- Lists that are sorted by figures read every budget. Each takes one command, unless one of its periods or windows has
-- ended, and one text of the reply, because forty texts cost more than the command. With HGETALL and a text for each
-- name and value, a list took twice as long.
local FIELDS = {
  'status', 'period_end', 'windows', 'credits', 'ledger_id', 'tenant_id', 'allocated', 'remaining', 'reserved',
    'spent', 'debt',
    'overdraft_limit',
  'is_over_limit', 'commit_overage_policy', 'rollover_policy', 'period_start', 'created_at', 'updated_at',
    'template_id', 'template_revision',
}
local BETWEEN = '\31'

local function add_current_windows(list, key, windows, status, now)
  list[#list + 1], list[#list + 2] =
    'windows', window_record.windows_text(window_record.current_windows(key, windows, status, now))
end

-- Appends a budget to the reply of a list: the names and values of its fields. Returns their bytes. A member of the
-- index that names no budget stands in place of its scope, and what is no budget record has only scope and unit.
local function append_budget(reply, tag, member, now)
  local scope, unit = scope_tree.budget_of_member(member)
  if not scope then
    scope, unit = member, ''
  end
  local key, fields = keys.budget(tag, unit, scope), { 'scope', scope, 'unit', unit }
  local values = redis.pcall('HMGET', key, unpack(FIELDS))
  local count = #fields
  for i = 1, values.err and 0 or #FIELDS do
    if values[i] then
      fields[count + 1], fields[count + 2] = FIELDS[i], values[i]
      count = count + 2
    end
  end
  local status, period_end, windows, credits = values[1], values[2], values[3], values[4]
  -- Of two values of a field the later one counts. A damaged budget is listed as it is, and whoever reads the list
  -- reports it.
  if period_end or credits then
    pcall(period.add_current_fields, fields, key, scope, period_end, status, now, credits)
  end
  if windows then
    pcall(add_current_windows, fields, key, windows, status, now)
  end
  local text = table.concat(fields, BETWEEN)
  reply[#reply + 1] = text
  return #text
end

return { append_budget = append_budget }
