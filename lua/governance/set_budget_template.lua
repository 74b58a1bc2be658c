#!lua
-- set_budget_template: create a template that makes budgets, or replace what it sets.
--
-- KEYS[1]   template         hash
-- KEYS[2]   template_index   sorted set of the tenant's templates, score = creation time in ms
-- KEYS[3]   tenant           hash of the owner
-- ARGV[1]   tenant_id
-- ARGV[2]   template_id
-- ARGV[3]   scope_pattern    canonical
-- ARGV[4]   unit
-- ARGV[5]   revision         a text that no other change has
-- ARGV[6-9] origin           actor is admin
-- ARGV[10]  boundaries       of its recurrence in ms, ascending, with commas between, or empty
-- ARGV[11]  window_plans     the same of each window, with | between, or empty
-- ARGV[...] field and value pairs of the record, as lua/lib/template_record.lua describes it
-- RETURNS   CREATED record{} | UPDATED record{} | TENANT_NOT_FOUND | TENANT_SUSPENDED | TENANT_CLOSED | OTHER_PATTERN
--           | TOO_MANY limit:int
-- BOUND     one template, and the ids of those with its pattern (at most 200)
-- EMITS     custom.budget_template.created, custom.budget_template.updated
-- @include  audit_log, event_writer, keys, template_index, tenant_state, time
--
-- A replacement sets all that the template sets, and its pattern and unit cannot change. One that changes nothing but
-- the plans writes these, and emits nothing. Budgets that the template has made stay as they are.
local template, index, tenant = KEYS[1], KEYS[2], KEYS[3]
local tenant_id, template_id, scope_pattern, unit, revision = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }
local boundaries, window_plans, first_field = ARGV[10], ARGV[11], 12

local tag = keys.tag_of(template)
local now = time.ms_text(time.now_ms())

local owner = tenant_state.read_tenant(tenant)
if not owner then
  return { 'TENANT_NOT_FOUND' }
end
local record, stored, given, changed = {}, redis.call('HGETALL', template), {}, {}
for i = 1, #stored, 2 do
  record[stored[i]] = stored[i + 1]
end
local is_new = #stored == 0
if owner.status == 'CLOSED' or is_new and owner.status ~= 'ACTIVE' then
  return { 'TENANT_' .. owner.status }
end
if not is_new and (record.scope_pattern ~= scope_pattern or record.unit ~= unit) then
  return { 'OTHER_PATTERN' }
end
if is_new and redis.call('ZCARD', index) >= template_index.MOST_TEMPLATES then
  return { 'TOO_MANY', tostring(template_index.MOST_TEMPLATES) }
end
local STANDING = { tenant_id = true, scope_pattern = true, unit = true, revision = true, created_at = true,
  updated_at = true, boundaries = true, window_plans = true }
for i = first_field, #ARGV, 2 do
  given[ARGV[i]] = ARGV[i + 1]
  if record[ARGV[i]] ~= ARGV[i + 1] then
    changed[#changed + 1] = ARGV[i]
  end
end
local removed = {}
for i = 1, #stored, 2 do
  if not given[stored[i]] and not STANDING[stored[i]] then
    removed[#removed + 1], changed[#changed + 1] = stored[i], stored[i]
  end
end
redis.call('ZCARD', keys.period_plans(tag))
redis.call('HLEN', keys.budget_template_pattern(tag, tenant_id))
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
if is_new then
  redis.call('ZADD', index, now, template_id)
  template_index.list_under(tag, tenant_id, unit .. ' ' .. scope_pattern, template_id)
  redis.call('HSET', template, 'tenant_id', tenant_id, 'scope_pattern', scope_pattern, 'unit', unit, 'created_at', now)
end
redis.call('HSET', template, 'boundaries', boundaries, 'window_plans', window_plans)
template_index.plan_again(tag, tenant_id, template_id, boundaries, window_plans)
if #changed == 0 then
  return { 'UPDATED', unpack(redis.call('HGETALL', template)) }
end
if #removed > 0 then
  redis.call('HDEL', template, unpack(removed))
end
redis.call('HSET', template, 'updated_at', now, 'revision', revision, unpack(ARGV, first_field))
template_index.set_revision(tag, tenant_id, revision)
local figures = { 'template_id', template_id, 'scope_pattern', scope_pattern, 'unit', unit }
if is_new then
  event_writer.append_event(tag, 'custom.budget_template.created', tenant_id, nil, origin, figures)
else
  figures[#figures + 1], figures[#figures + 2] = 'changed_fields', table.concat(changed, ',')
  event_writer.append_event(tag, 'custom.budget_template.updated', tenant_id, nil, origin, figures)
end
audit_log.append_audit(tag, 'setBudgetTemplate', is_new and 201 or 200, tenant_id, 'budget_template', template_id,
  origin, figures)
return { is_new and 'CREATED' or 'UPDATED', unpack(redis.call('HGETALL', template)) }
