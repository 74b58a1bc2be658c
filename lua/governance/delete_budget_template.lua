#!lua
-- delete_budget_template: end a template. The budgets that it has made stay, with its id.
--
-- KEYS[1]   template         hash
-- KEYS[2]   template_index   sorted set of the tenant's templates
-- ARGV[1]   tenant_id
-- ARGV[2]   template_id
-- ARGV[3]   revision         a text that no other change has
-- ARGV[4-7] origin           actor is admin
-- RETURNS   DELETED | NOT_FOUND
-- BOUND     one template, and the ids of those with its pattern (at most 200)
-- EMITS     custom.budget_template.deleted
-- @include  audit_log, event_writer, keys, template_index
local template, index = KEYS[1], KEYS[2]
local tenant_id, template_id, revision = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[4], key = ARGV[5], request = ARGV[6], trace = ARGV[7] }

local tag = keys.tag_of(template)

local record = redis.call('HMGET', template, 'scope_pattern', 'unit')
if not record[1] or not record[2] then
  return { 'NOT_FOUND' }
end
redis.call('ZCARD', keys.period_plans(tag))
redis.call('HLEN', keys.budget_template_pattern(tag, tenant_id))
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('ZREM', index, template_id)
redis.call('DEL', template)
template_index.remove_from(tag, tenant_id, record[2] .. ' ' .. record[1], template_id)
template_index.plan_again(tag, tenant_id, template_id, '', '')
template_index.set_revision(tag, tenant_id, revision)
local figures = { 'template_id', template_id, 'scope_pattern', record[1], 'unit', record[2] }
event_writer.append_event(tag, 'custom.budget_template.deleted', tenant_id, nil, origin, figures)
audit_log.append_audit(tag, 'deleteBudgetTemplate', 204, tenant_id, 'budget_template', template_id, origin, figures)
return { 'DELETED' }
