-- derived_fields: the fields of a tenant's record that follow from what the tenant owns, for a record that is made
-- anew. Other scripts keep them in step with set_derived of lua/lib/tenant_state.lua, which cannot do so while there is
-- no record.
-- @include keys, time, webhook_record

-- As field and value pairs; none for a tenant that owns nothing.
local function derived_fields(tag, tenant_id)
  local fields = {}
  local function add(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, value
  end
  local patterns = redis.call('HLEN', keys.policy_pattern(tag, tenant_id))
  if patterns > 0 then
    add('policies', time.ms_text(patterns))
    -- Counting those that limit commits would take as long as there are policies. A number that is too high costs a
    -- commit a look-up.
    add('commit_rates', time.ms_text(redis.call('ZCARD', keys.policy_index(tag, tenant_id))))
  end
  local revision = redis.call('HGET', keys.budget_template_pattern(tag, tenant_id), 'revision')
  if revision then
    add('templates', revision)
  end
  local utilizations = webhook_record.stored_utilizations(tag, tenant_id)
  if utilizations then
    add('th', utilizations)
  end
  return fields
end

return derived_fields
