-- template_index: what else changes with a tenant's budget templates, which lua/lib/template_record.lua describes.
-- @include keys, tenant_state
--
-- One hash per tenant maps each `unit pattern` to the ids of the templates that have it, oldest first, with spaces
-- between. Its field `revision`, which is also in the tenant's record, is another one after each change, as a text that
-- occurs once.

-- The most templates of a tenant.
local MOST_TEMPLATES = 200

local function list_under(tag, tenant_id, pattern, template_id)
  local index = keys.budget_template_pattern(tag, tenant_id)
  local others = redis.call('HGET', index, pattern)
  redis.call('HSET', index, pattern, others and others .. ' ' .. template_id or template_id)
end

local function remove_from(tag, tenant_id, pattern, template_id)
  local index, others = keys.budget_template_pattern(tag, tenant_id), {}
  for id in string.gmatch(redis.call('HGET', index, pattern) or '', '%S+') do
    if id ~= template_id then
      others[#others + 1] = id
    end
  end
  if #others > 0 then
    redis.call('HSET', index, pattern, table.concat(others, ' '))
  else
    redis.call('HDEL', index, pattern)
  end
end

-- Called after each change: no run uses what it knows of the templates any more.
local function set_revision(tag, tenant_id, revision)
  local index = keys.budget_template_pattern(tag, tenant_id)
  redis.call('HDEL', index, 'revision')
  local has_templates = redis.call('HLEN', index) > 0
  if has_templates then
    redis.call('HSET', index, 'revision', revision)
  end
  tenant_state.set_derived(keys.tenant(tag, tenant_id), 'templates', has_templates and revision or nil)
end

-- Notes when the boundaries of a template are to be planned again: before half of those of its period, or of one of its
-- windows, have passed.
-- Its entry among the plans of budgets is `template`, the tenant and its id.
local function plan_again(tag, tenant_id, template_id, boundaries, window_plans)
  local member, earliest = 'template ' .. tenant_id .. ' ' .. template_id, nil
  for plan in string.gmatch(boundaries .. '|' .. window_plans, '[^|]+') do
    local instants = {}
    for instant in string.gmatch(plan, '%d+') do
      instants[#instants + 1] = instant
    end
    local middle = instants[math.ceil(#instants / 2)]
    if middle and (not earliest or tonumber(middle) < tonumber(earliest)) then
      earliest = middle
    end
  end
  if earliest then
    redis.call('ZADD', keys.period_plans(tag), earliest, member)
  else
    redis.call('ZREM', keys.period_plans(tag), member)
  end
end

return {
  MOST_TEMPLATES = MOST_TEMPLATES, list_under = list_under, plan_again = plan_again, remove_from = remove_from,
  set_revision = set_revision,
}
