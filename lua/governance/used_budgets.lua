#!lua flags=no-writes
-- used_budgets: find the budgets of a partition of which much is used, a bounded run at a time.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   tenant         where the run before ended, or empty to start with the first
-- ARGV[2]   after          its budget, or empty
-- ARGV[3]   share          from which part of its allocation on a budget is listed, such as 0.8
-- ARGV[4]   limit          records a run, at least 1; a tenant counts as one
-- RETURNS   next_tenant? next_after? examined:int budgets(tenant scope unit share)*
-- BOUND     limit records, and of each a few short fields
-- EMITS     nothing
-- @include  int64, keys, listing, lists, scope_tree, time
--
-- The following run starts at next_tenant. There is none at the end. What is used is spent or held. Closed budgets and
-- those that cannot be read are left out; the overview names the latter. If nothing is allocated and something is used,
-- the share is 1.
local tenant_index = KEYS[1]
local tenant, after, share, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local tag = keys.tag_of(tenant_index)
local left = limit
local budgets = {}
local next_tenant, next_after = '', ''

local function look_at(owner, member)
  local scope, unit = scope_tree.budget_of_member(member)
  local record = scope
    and redis.pcall('HMGET', keys.budget(tag, unit, scope), 'status', 'spent', 'reserved', 'allocated') or {}
  local allocated = record[4]
  if record[1] == 'CLOSED'
    or not (int64.is_amount(record[2]) and int64.is_amount(record[3]) and int64.is_amount(allocated)) then
    return
  end
  -- Doubles are precise enough for a share.
  local used = tonumber(record[2]) + tonumber(record[3])
  local used_share = used == 0 and 0 or allocated == '0' and 1 or used / tonumber(allocated)
  if used_share >= share then
    lists.append_all(budgets, { owner, scope, unit, string.format('%.4f', used_share) })
  end
end

-- Returns false when the run ends there.
local function look_at_all(owner, last)
  local index = keys.budget_index(tag, owner)
  local members = left > 0 and listing.members_or_index(listing.members_after_name, index, last, left) or {}
  if members[1] ~= index then
    for _, member in ipairs(members) do
      look_at(owner, member)
    end
  end
  left = left - #members
  if left > 0 then
    return true
  end
  next_tenant, next_after = owner, members[#members] or last
  return false
end

if tenant == '' or look_at_all(tenant, after) then
  for _, owner in ipairs(listing.members_after(tenant_index, tenant, limit)) do
    left = left - 1
    if not look_at_all(owner, '') then
      break
    end
  end
end

local reply = { next_tenant, next_after, time.ms_text(limit - left) }
return lists.append_all(reply, budgets)
