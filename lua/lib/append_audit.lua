-- append_audit: one row into the partition's audit log, a stream that only scripts write.
-- @include keys
--
-- The script that makes the change appends the row in the same run, so there is no change without a row and no row
-- without a change. An entry holds short field names: op operation, tn the tenant that asked or __admin__, ow the tenant
-- it was done to, ac actor type, ki actor key id, rq request id, tr trace id and flags, co correlation id,
-- rt resource type, ri resource id, st HTTP status, and then the operation's own details as the row's metadata.
-- An operator who acts as such is __admin__; one who acts for a tenant, as the tenant could itself, counts as that tenant.
local function append_audit(tag, operation, status, tenant, resource_type, resource_id, origin, details)
  local entry = { 'XADD', audit_log_key(tag), '*', 'op', operation, 'tn', origin.actor == 'admin' and '__admin__' or tenant,
    'ow', tenant, 'ac', origin.actor, 'rt', resource_type, 'ri', resource_id, 'st', status }
  local function put(name, value)
    if value and value ~= '' then
      entry[#entry + 1] = name
      entry[#entry + 1] = value
    end
  end
  put('ki', origin.key)
  put('rq', origin.request)
  put('tr', origin.trace)
  put('co', origin.correlation)
  for i = 1, #details, 2 do
    put(details[i], details[i + 1])
  end
  redis.call(unpack(entry))
end

-- Ends the script when the log is no stream. A script that will append calls this before its first write, for an error
-- in the middle would leave a change without its row.
local function require_audit_log(tag)
  redis.call('XLEN', audit_log_key(tag))
end
