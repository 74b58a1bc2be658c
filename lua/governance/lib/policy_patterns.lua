-- policy_patterns: keeps the hash of patterns in step with the policies. lua/ledger/lib/policy_search.lua describes the
-- hash.
-- @include keys, tenant_state
--
-- The most policies per pattern. A reserve under the pattern may have to check each of them.
local POLICIES_PER_PATTERN = 32

-- The pattern's entries without one policy, and without those that have ended.
local function other_entries(tag, tenant_id, pattern, policy_id, now)
  local entries = {}
  for entry in string.gmatch(redis.call('HGET', keys.policy_pattern(tag, tenant_id), pattern) or '', '%S+') do
    local id, ends = string.match(entry, '^([^,]+),%d+,%-?%d*,(%-?%d*),%d+$')
    if not id then
      error('corrupt policy index of ' .. tenant_id .. ' at ' .. pattern)
    end
    if id ~= policy_id and (ends == '' or now < tonumber(ends)) then
      entries[#entries + 1] = entry
    end
  end
  return entries
end

local function policy_entry(policy_id, priority, effective_from, effective_until, created_at)
  return table.concat({ policy_id, priority, effective_from, effective_until, created_at }, ',')
end

-- Whether an entry takes precedence over another of the same pattern: the higher priority, then the older.
local function entry_before(a, b)
  local a_priority, a_created = string.match(a, '^[^,]+,(%d+),.*,(%d+)$')
  local b_priority, b_created = string.match(b, '^[^,]+,(%d+),.*,(%d+)$')
  if a_priority ~= b_priority then
    return tonumber(a_priority) > tonumber(b_priority)
  end
  if a_created ~= b_created then
    return tonumber(a_created) < tonumber(b_created)
  end
  return a < b
end

-- Writes a pattern's entries, and the count of patterns, from which a reserve knows whether there are any.
local function write_entries(tag, tenant_id, pattern, entries)
  local index = keys.policy_pattern(tag, tenant_id)
  table.sort(entries, entry_before)
  if #entries == 0 then
    redis.call('HDEL', index, pattern)
  else
    redis.call('HSET', index, pattern, table.concat(entries, ' '))
  end
  local patterns = redis.call('HLEN', index)
  tenant_state.set_derived(keys.tenant(tag, tenant_id), 'policies', patterns > 0 and patterns or nil)
end

return {
  POLICIES_PER_PATTERN = POLICIES_PER_PATTERN, other_entries = other_entries, policy_entry = policy_entry,
  write_entries = write_entries,
}
