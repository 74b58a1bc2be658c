-- derived: the fields of a tenant's record that follow from what the tenant owns, for a record that is made anew. Other scripts keep them
-- in step with set_derived of lua/lib/tenant.lua, which cannot do so while there is no record.
-- @include keys: policy_pattern_key, policy_index_key
-- @include now_ms: ms_text
-- @include webhook: stored_utilizations

-- As field and value pairs; none for a tenant that owns nothing.
local function derived_fields(tag, tenant_id)
  local fields = {}
  local function add(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, value
  end
  local patterns = redis.call('HLEN', policy_pattern_key(tag, tenant_id))
  if patterns > 0 then
    add('policies', ms_text(patterns))
    -- Counting those that limit commits would take as long as there are policies. A number that is too high costs a commit a look-up.
    add('commit_rates', ms_text(redis.call('ZCARD', policy_index_key(tag, tenant_id))))
  end
  local utilizations = stored_utilizations(tag, tenant_id)
  if utilizations then
    add('th', utilizations)
  end
  return fields
end
