#!lua flags=allow-oom
-- bulk_tenant: apply a bulk action to one tenant, once.
-- allow-oom: an operator must be able to stop tenants when Redis is full.
--
-- KEYS[1]   tenant           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   status           the new one: ACTIVE, SUSPENDED or CLOSED
-- ARGV[3]   keep_ms          how long the action remembers that it changed this tenant
-- ARGV[4]   correlation_id   of the whole action
-- ARGV[5-8] origin           actor is admin; request_id is that of the action's first attempt, after
--           which the set of changed rows is named
-- RETURNS   SUCCEEDED | SKIPPED reason:ALREADY_IN_TARGET_STATE | NOT_FOUND | INVALID_TRANSITION
-- BOUND     one tenant
-- EMITS     tenant.suspended, tenant.reactivated
-- @include  keys, tenant_moves, tenant_state, time
--
-- After SUCCEEDED with CLOSED, the caller must run lua/governance/close_tenant.lua until it is done.
local tenant_record = KEYS[1]
local tenant_id, status, keep_ms = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8], correlation = ARGV[4] }

local tag = keys.tag_of(tenant_record)
local changed_rows = keys.bulk_rows(tag, origin.request)

if redis.call('SISMEMBER', changed_rows, tenant_id) == 1 then
  return { 'SUCCEEDED' }
end
local tenant = tenant_state.read_tenant(tenant_record)
if not tenant then
  return { 'NOT_FOUND' }
end
if tenant.status == status then
  return { 'SKIPPED', 'ALREADY_IN_TARGET_STATE' }
end
if tenant.status == 'CLOSED' then
  return { 'INVALID_TRANSITION' }
end
tenant_moves.require_tenant_move(tag)

-- Nothing is refused below this line.
redis.call('SADD', changed_rows, tenant_id)
redis.call('PEXPIRE', changed_rows, keep_ms)
tenant_moves.move_tenant(tag, tenant_record, tenant_id, tenant.status, status, time.ms_text(time.now_ms()), origin)
return { 'SUCCEEDED' }
