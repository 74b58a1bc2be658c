#!lua
-- create_policy: create a policy of a tenant. It applies at once within its effective window.
--
-- KEYS[1]   policy           hash, created by this script
-- KEYS[2]   policy_index     sorted set of the tenant's policies, score = creation time in ms
-- KEYS[3]   policy_names     hash, maps names to policy ids
-- KEYS[4]   tenant           hash of the owner
-- ARGV[1]   tenant_id
-- ARGV[2]   policy_id        the new id
-- ARGV[3]   name
-- ARGV[4]   scope_pattern    canonical: a scope, or one followed by '/*'
-- ARGV[5]   priority
-- ARGV[6]   effective_from   ms, or empty
-- ARGV[7]   effective_until  ms, or empty
-- ARGV[8-11] origin           actor is api_key or admin_on_behalf_of
-- ARGV[12]  max_policies     the deployment's limit, 0 for none
-- ARGV[...] field and value pairs of the record: description and settings
-- RETURNS   CREATED record{} | TENANT_NOT_FOUND | TENANT_SUSPENDED | TENANT_CLOSED | DUPLICATE | TOO_MANY limit:int
--           | LIMIT_EXCEEDED limit allowed:int used:int
-- BOUND     one policy, and those of its pattern (at most 32)
-- EMITS     policy.created
-- @include  action_rules, audit_log, event_writer, keys, owned_counts, policy_patterns, policy_rate, tenant_state,
--           time
local policy, policy_index, policy_names, tenant = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tenant_id, policy_id, name, scope_pattern, priority = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local effective_from, effective_until = ARGV[6], ARGV[7]
local origin = { actor = ARGV[8], key = ARGV[9], request = ARGV[10], trace = ARGV[11] }
local max_policies, first_field = ARGV[12], 13

local tag = keys.tag_of(policy)
local now = time.now_ms()

local owner = tenant_state.read_tenant(tenant)
if not owner then
  return { 'TENANT_NOT_FOUND' }
end
if owner.status ~= 'ACTIVE' then
  return { 'TENANT_' .. owner.status }
end
if redis.call('HEXISTS', policy_names, name) == 1 then
  return { 'DUPLICATE' }
end
local refusal = owned_counts.count_refusal(tag, tenant_id, 'policies', max_policies, policy_index)
if refusal then
  return refusal
end
local entries = policy_patterns.other_entries(tag, tenant_id, scope_pattern, policy_id, now)
if #entries >= policy_patterns.POLICIES_PER_PATTERN then
  return { 'TOO_MANY', tostring(policy_patterns.POLICIES_PER_PATTERN) }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local now_text = time.ms_text(now)
entries[#entries + 1] = policy_patterns.policy_entry(policy_id, priority, effective_from, effective_until, now_text)
redis.call('ZADD', policy_index, now_text, policy_id)
redis.call('HSET', policy_names, name, policy_id)
policy_patterns.write_entries(tag, tenant_id, scope_pattern, entries)
redis.call('HSET', policy, 'tenant_id', tenant_id, 'name', name, 'scope_pattern', scope_pattern, 'priority', priority,
  'status', 'ACTIVE', 'created_at', now_text, 'updated_at', now_text, unpack(ARGV, first_field))
local sets = {}
for i = first_field, #ARGV, 2 do
  sets[ARGV[i]] = ARGV[i + 1]
end
local rules = action_rules.rules_text(sets)
if rules then
  redis.call('HSET', policy, 'rules', rules)
end
if sets.max_commits_per_minute then
  policy_rate.count_commit_limits(tag, tenant_id, 1)
end
if effective_from ~= '' then
  redis.call('HSET', policy, 'effective_from', effective_from)
end
if effective_until ~= '' then
  redis.call('HSET', policy, 'effective_until', effective_until)
end
event_writer.append_event(tag, 'policy.created', tenant_id, nil, origin,
  { 'policy_id', policy_id, 'name', name, 'scope_pattern', scope_pattern })
audit_log.append_audit(tag, 'createPolicy', 201, tenant_id, 'policy', policy_id, origin,
  { 'scope_pattern', scope_pattern })
return { 'CREATED', unpack(redis.call('HGETALL', policy)) }
