#!lua flags=allow-oom
-- update_tenant: change a tenant's name, settings or status. Closing it takes effect at once for everything it owns.
-- allow-oom: an operator must be able to stop a tenant when Redis is full.
--
-- KEYS[1]   tenant           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   status           ACTIVE, SUSPENDED or CLOSED, or empty for no change
-- ARGV[3-6] origin           actor is admin
-- ARGV[...] field and value pairs of the record: name, metadata, and runtime defaults
-- RETURNS   UPDATED record{} | CLOSING record{} | NOT_FOUND | TENANT_CLOSED | IRREVERSIBLE | TTL_ABOVE_MAX max_ms
-- BOUND     one tenant
-- EMITS     tenant.updated, tenant.settings_changed, tenant.suspended, tenant.reactivated
-- @include  audit_log, event_writer, keys, tenant_moves, tenant_state, time
--
-- After CLOSING, the caller must run lua/governance/close_tenant.lua until it is done: it closes what the tenant owns,
-- then emits tenant.closed. This script also adds the tenant to the set of closing tenants, so the closing completes
-- even if the caller dies. Closing a closed tenant again closes whatever was left open.
local tenant_record = KEYS[1]
local tenant_id, status = ARGV[1], ARGV[2]
local origin = { actor = ARGV[3], key = ARGV[4], request = ARGV[5], trace = ARGV[6] }
local first_field = 7
local DESCRIPTIVE = { name = true, metadata = true }
-- What an unset field means, where setting it to that is no change.
local UNSET = { observe_mode = 'ENFORCE', charge_on_expiry_percent = '0' }

local tag = keys.tag_of(tenant_record)
local now = time.ms_text(time.now_ms())

local tenant = tenant_state.read_tenant(tenant_record)
if not tenant then
  return { 'NOT_FOUND' }
end
if tenant.status == 'CLOSED' then
  if status ~= '' and status ~= 'CLOSED' then
    return { 'IRREVERSIBLE' }
  end
  if status == '' or #ARGV >= first_field then
    return { 'TENANT_CLOSED' }
  end
end

-- Fields that differ from the record. Description and settings are separate because they have separate events.
local changes, changed, described, settings, given = {}, {}, {}, {}, {}
for i = first_field, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  given[field] = value
  if (redis.call('HGET', tenant_record, field) or UNSET[field]) ~= value then
    changes[#changes + 1] = field
    changes[#changes + 1] = value
    local list = DESCRIPTIVE[field] and described or settings
    list[#list + 1] = field
    changed[#changed + 1] = field
  end
end
-- An unset default follows the maximum.
local default_ttl_ms = given.default_reservation_ttl_ms
  or redis.call('HGET', tenant_record, 'default_reservation_ttl_ms')
local max_ttl_ms = tonumber(given.max_reservation_ttl_ms) or tenant.max_ttl_ms
if default_ttl_ms and tonumber(default_ttl_ms) > max_ttl_ms then
  return { 'TTL_ABOVE_MAX', time.ms_text(max_ttl_ms) }
end

local function json_list(names)
  return '["' .. table.concat(names, '","') .. '"]'
end
tenant_moves.require_tenant_move(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local moves = status ~= '' and status ~= tenant.status
if #changes > 0 then
  redis.call('HSET', tenant_record, 'updated_at', now, unpack(changes))
end
if #described > 0 then
  event_writer.append_event(tag, 'tenant.updated', tenant_id, nil, origin,
    { 'tenant_id', tenant_id, 'changed_fields', json_list(described) })
end
if #settings > 0 then
  event_writer.append_event(tag, 'tenant.settings_changed', tenant_id, nil, origin,
    { 'tenant_id', tenant_id, 'changed_fields', json_list(settings) })
end
if moves then
  tenant_moves.move_tenant(tag, tenant_record, tenant_id, tenant.status, status, now, origin)
elseif status == 'CLOSED' then
  tenant_moves.begin_closing(tag, tenant_id, tenant.status, origin)
end
if #changes > 0 or moves then
  audit_log.append_audit(tag, 'updateTenant', 200, tenant_id, 'tenant', tenant_id, origin,
    { 'previous_status', tenant.status, 'new_status', moves and status or tenant.status,
      'changed_fields', table.concat(changed, ',') })
end
return { status == 'CLOSED' and 'CLOSING' or 'UPDATED', unpack(redis.call('HGETALL', tenant_record)) }
