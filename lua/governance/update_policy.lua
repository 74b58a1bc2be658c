#!lua
-- update_policy: change what a policy sets, or when and whether it applies. Its pattern and its owner never change.
--
-- KEYS[1]   policy           hash
-- ARGV[1]   tenant_id        the caller's tenant, or empty for an operator
-- ARGV[2]   policy_id
-- ARGV[3-6] origin           actor is api_key or admin_on_behalf_of
-- ARGV[...] field and value pairs of the record; an empty value removes the field
-- RETURNS   UPDATED record{} | NOT_FOUND | TENANT_CLOSED | DUPLICATE | INVALID_WINDOW | BOTH_LISTS | TOO_MANY limit:int
-- BOUND     one policy, and those of its pattern (at most 32)
-- EMITS     policy.updated
-- @include  action_rules, audit_log, event_writer, keys, policy_patterns, policy_rate, tenant_state, time
--
-- A request that changes nothing returns the policy; it writes nothing and emits nothing.
local policy = KEYS[1]
local tenant_id, policy_id = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }
local first_field = 7
-- The member of the protocol's Policy that each field belongs to.
local MEMBER_OF = {
  default_ttl_ms = 'reservation_ttl_override', max_ttl_ms = 'reservation_ttl_override',
  max_extensions = 'reservation_ttl_override',
  max_reservations_per_minute = 'rate_limits', max_commits_per_minute = 'rate_limits',
}

local tag = keys.tag_of(policy)
local now = time.now_ms()

local record, stored = {}, redis.call('HGETALL', policy)
for i = 1, #stored, 2 do
  record[stored[i]] = stored[i + 1]
end
local owner_id = record.tenant_id
if not owner_id or (tenant_id ~= '' and owner_id ~= tenant_id) then
  return { 'NOT_FOUND' }
end
local owner = tenant_state.read_tenant(keys.tenant(tag, owner_id))
if owner and owner.status == 'CLOSED' then
  return { 'TENANT_CLOSED' }
end

local limited_commits = policy_rate.limits_commits(record)
local old_name, changed, members, touched = record.name, {}, {}, {}
for i = first_field, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if (record[field] or '') ~= value then
    changed[#changed + 1] = field
    record[field] = value ~= '' and value or nil
    local member = MEMBER_OF[field] or field
    if not touched[member] then
      touched[member] = true
      members[#members + 1] = member
    end
  end
end
if #changed == 0 then
  return { 'UPDATED', unpack(stored) }
end
if touched.name and redis.call('HEXISTS', keys.policy_name(tag, owner_id), record.name) == 1 then
  return { 'DUPLICATE' }
end
local from, ends = record.effective_from or '', record.effective_until or ''
if from ~= '' and ends ~= '' and tonumber(from) >= tonumber(ends) then
  return { 'INVALID_WINDOW' }
end
if record.allowed_action_kinds and record.denied_action_kinds then
  return { 'BOTH_LISTS' }
end
local entries = policy_patterns.other_entries(tag, owner_id, record.scope_pattern, policy_id, now)
if record.status == 'ACTIVE' then
  if #entries >= policy_patterns.POLICIES_PER_PATTERN then
    return { 'TOO_MANY', tostring(policy_patterns.POLICIES_PER_PATTERN) }
  end
  entries[#entries + 1] = policy_patterns.policy_entry(policy_id, record.priority, from, ends, record.created_at)
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
if touched.name then
  redis.call('HDEL', keys.policy_name(tag, owner_id), old_name)
  redis.call('HSET', keys.policy_name(tag, owner_id), record.name, policy_id)
end
policy_patterns.write_entries(tag, owner_id, record.scope_pattern, entries)
for _, field in ipairs(changed) do
  if record[field] then
    redis.call('HSET', policy, field, record[field])
  else
    redis.call('HDEL', policy, field)
  end
end
local rules = action_rules.rules_text(record)
if rules then
  redis.call('HSET', policy, 'rules', rules)
else
  redis.call('HDEL', policy, 'rules')
end
redis.call('HSET', policy, 'updated_at', time.ms_text(now))
if policy_rate.limits_commits(record) ~= limited_commits then
  policy_rate.count_commit_limits(tag, owner_id, limited_commits and -1 or 1)
end
local changed_fields = table.concat(members, ',')
event_writer.append_event(tag, 'policy.updated', owner_id, nil, origin,
  { 'policy_id', policy_id, 'name', record.name, 'scope_pattern', record.scope_pattern, 'changed_fields',
  changed_fields })
audit_log.append_audit(tag, 'updatePolicy', 200, owner_id, 'policy', policy_id, origin,
  { 'changed_fields', changed_fields })
return { 'UPDATED', unpack(redis.call('HGETALL', policy)) }
