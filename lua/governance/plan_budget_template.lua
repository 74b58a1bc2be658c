#!lua flags=allow-oom
-- plan_budget_template: give a template the boundaries that the periods and windows of its budgets will have.
-- allow-oom: without them, it could make no budgets any more.
--
-- KEYS[1]   template         hash
-- ARGV[1]   tenant_id
-- ARGV[2]   template_id
-- ARGV[3]   revision         of the template whose rules the instants follow from
-- ARGV[4]   boundaries       of its recurrence in ms, ascending, with commas between, or empty
-- ARGV[5]   window_plans     the same of each window, with | between, or empty
-- RETURNS   PLANNED | SKIP
-- BOUND     one template, 100 instants of each rule
-- EMITS     nothing
-- @include  keys, template_index
--
-- As plan_periods does for a budget. SKIP: another change has planned the template, or it leaves the plans, because it
-- is gone, its tenant is closed, or its rules cannot be read any more. Then it keeps what it has.
local template = KEYS[1]
local tenant_id, template_id, revision, boundaries, window_plans = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local tag = keys.tag_of(template)
local stored = redis.call('HGET', template, 'revision')
local is_closed = redis.pcall('HGET', keys.tenant(tag, tenant_id), 'status') == 'CLOSED'

-- Nothing is refused below this line.
if stored and stored ~= revision then
  return { 'SKIP' }
elseif not stored or is_closed or boundaries .. window_plans == '' then
  template_index.plan_again(tag, tenant_id, template_id, '', '')
  return { 'SKIP' }
end
redis.call('HSET', template, 'boundaries', boundaries, 'window_plans', window_plans)
template_index.plan_again(tag, tenant_id, template_id, boundaries, window_plans)
return { 'PLANNED' }
