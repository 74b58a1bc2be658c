-- move_tenant: take a tenant to another status, and tell of it.
-- @include keys: closing_key
-- @include append_event: append_event, require_event_log
--
-- tenant.closed is told by lua/governance/close_tenant.lua, once all that the tenant owns has followed. The tenant's place in the set of
-- closing ones makes that happen also when the caller dies.

-- Ends the script where one of the writes below would fail.
local function require_tenant_move(tag)
  require_event_log(tag)
  redis.call('HLEN', closing_key(tag))
end

-- Whoever closed a tenant first stays the one under whose request all that follows is told.
local function begin_closing(tag, tenant_id, previous_status, origin)
  redis.call('HSETNX', closing_key(tag), tenant_id,
    table.concat({ origin.actor, origin.key, origin.request, (string.gsub(origin.trace, '|', '/')), previous_status }, '|'))
end

-- The caller has checked that the status differs and that it may be reached.
local function move_tenant(tag, tenant_record, tenant_id, previous_status, status, now, origin)
  local figures = { 'tenant_id', tenant_id, 'previous_status', previous_status, 'new_status', status, 'changed_fields', '["status"]' }
  if status == 'ACTIVE' then
    redis.call('HDEL', tenant_record, 'suspended_at')
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status)
    append_event(tag, 'tenant.reactivated', tenant_id, nil, origin, figures)
  elseif status == 'SUSPENDED' then
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status, 'suspended_at', now)
    append_event(tag, 'tenant.suspended', tenant_id, nil, origin, figures)
  else
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status, 'closed_at', now)
    if origin.correlation then
      -- tenant.closed belongs to the action that closed it, and what follows from it to the closing of this tenant.
      redis.call('HSET', tenant_record, 'close_correlation', origin.correlation)
    end
    begin_closing(tag, tenant_id, previous_status, origin)
  end
end
