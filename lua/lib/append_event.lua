-- append_event: one event into the partition's event log, a stream that only scripts write.
-- @include keys
--
-- The script that changes state appends the event in the same run, so an event exists if and only if its change does.
-- An entry holds short field names: ty type, tn tenant, sc scope, ac actor type, ki actor key id,
-- rq request id, tr trace id and flags, co correlation id, and then the type's own figures under the names of its EventData schema.
-- Returns the entry's id, from which the event's public id is derived.
--
-- `origin` is who caused it: { actor = 'api_key' | 'admin' | 'system' | ..., key = key id or '', request = id or '', trace = trace or '',
-- correlation = id or nil }.
-- `figures` is a flat list of name, value pairs; a pair with a nil or empty value is left out by its maker.
local function append_event(tag, event_type, tenant, scope, origin, figures)
  local entry = { 'XADD', event_log_key(tag), '*', 'ty', event_type, 'tn', tenant, 'ac', origin.actor }
  local function put(name, value)
    if value and value ~= '' then
      entry[#entry + 1] = name
      entry[#entry + 1] = value
    end
  end
  put('sc', scope)
  put('ki', origin.key)
  put('rq', origin.request)
  put('tr', origin.trace)
  put('co', origin.correlation)
  for i = 1, #figures, 2 do
    put(figures[i], figures[i + 1])
  end
  return redis.call(unpack(entry))
end

-- Ends the script when the log is no stream. A script that will append calls this before its first write, for an error
-- in the middle would leave a change without its event.
local function require_event_log(tag)
  redis.call('XLEN', event_log_key(tag))
end
