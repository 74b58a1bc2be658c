-- audit_row: appends one row to the partition's audit log, a stream that only scripts write.
-- @include audit_index, keys
--
-- An entry has short field names: op operation, tn the tenant that made the request or __admin__, ow the tenant whose
-- resource it is, ac actor type, ki actor key id, rq request id, tr trace id and flags, co correlation id, rt resource
-- type, ri resource id, st HTTP status, ip source address, ua user agent, and then the operation's own details as the
-- row's metadata. tn is __admin__ for an operator, but the tenant for an operator who acts on a tenant's behalf.
--
-- An origin is four arguments of a script: actor, key_id, request_id and trace. key_id is empty for the admin key. The
-- trace is a trace id and its flags; if the edge knows them, a space, the source address, a space and the user agent
-- follow.
local function put_audit_row(tag, operation, status, tenant, resource_type, resource_id, origin, details)
  local trace, source_ip, user_agent = string.match(origin.trace or '', '^(%S*) ?(%S*) ?(.*)$')
  local fields = { 'op', operation, 'tn', origin.actor == 'admin' and '__admin__' or tenant,
    'ow', tenant, 'ac', origin.actor, 'rt', resource_type, 'ri', resource_id, 'st', status }
  local function put(name, value)
    if value and value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  put('ki', origin.key)
  put('rq', origin.request)
  put('tr', trace)
  put('co', origin.correlation)
  put('ip', source_ip)
  put('ua', user_agent)
  for i = 1, #details, 2 do
    put(details[i], details[i + 1])
  end
  audit_index.append_audit_row(tag, 'audit', keys.audit_log(tag), fields)
end

return { put_audit_row = put_audit_row }
