-- tenant_moves: changes a tenant's status and emits its event.
-- @include event_writer, keys
--
-- lua/governance/close_tenant.lua emits tenant.closed, once everything that the tenant owns has been closed. The
-- tenant's entry in the hash of closing tenants makes sure of this even if the caller dies.

-- Ends the script if one of the writes below would fail.
local function require_tenant_move(tag)
  event_writer.require_event_log(tag)
  redis.call('HLEN', keys.closing(tag))
end

-- Keeps the first request to close a tenant: all events of the cascade are attributed to it.
local function begin_closing(tag, tenant_id, previous_status, origin)
  redis.call('HSETNX', keys.closing(tag), tenant_id,
    table.concat({ origin.actor, origin.key, origin.request, (string.gsub(origin.trace, '|', '/')), previous_status },
    '|'))
end

-- The caller has checked that the status differs and that the transition is allowed.
local function move_tenant(tag, tenant_record, tenant_id, previous_status, status, now, origin)
  local figures = { 'tenant_id', tenant_id, 'previous_status', previous_status, 'new_status', status, 'changed_fields',
    '["status"]' }
  if status == 'ACTIVE' then
    redis.call('HDEL', tenant_record, 'suspended_at')
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status)
    event_writer.append_event(tag, 'tenant.reactivated', tenant_id, nil, origin, figures)
  elseif status == 'SUSPENDED' then
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status, 'suspended_at', now)
    event_writer.append_event(tag, 'tenant.suspended', tenant_id, nil, origin, figures)
  else
    redis.call('HSET', tenant_record, 'updated_at', now, 'status', status, 'closed_at', now)
    if origin.correlation then
      -- tenant.closed gets the correlation id of the action that closed the tenant; the events of the cascade have one
      -- of their own.
      redis.call('HSET', tenant_record, 'close_correlation', origin.correlation)
    end
    begin_closing(tag, tenant_id, previous_status, origin)
  end
end

return { begin_closing = begin_closing, move_tenant = move_tenant, require_tenant_move = require_tenant_move }
