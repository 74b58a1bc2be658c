-- event_writer: appends one event to the partition's event log, a stream that only scripts write.
-- @include keys, time
--
-- The script that changes state appends the event in the same run, so an event exists if and only if its change does.
-- An entry has short field names: ty type, tn tenant, sc scope, ac actor type, ki actor key id, rq request id, tr trace
-- id and flags, co correlation id, va whether a decision or dry run was denied instead of a reservation, and then the
-- type's own figures under the names of its EventData schema.
-- Separate streams with the same entry ids index the events of a tenant and those of a correlation id.
-- Returns the entry's id, from which the event's public id is derived.
--
-- `origin` is the cause of the event: { actor = 'api_key' | 'admin' | 'system'
-- | ..., key = key id or '', request = id or '', trace = trace or '', correlation = id or nil }.
-- `figures` is a flat list of name, value pairs. Pairs with an empty value are skipped.
-- The length of a trace id, a hyphen and its flags. What follows these in an origin's trace is for the audit log only;
-- see append_audit.
local TRACE_LENGTH = 35

local function put_field(entry, size, name, value)
  if not value or value == '' then
    return size
  end
  entry[size + 1], entry[size + 2] = name, value
  return size + 2
end

local function append_event(tag, event_type, tenant, scope, origin, figures)
  local log, correlation = keys.event_log(tag), origin.correlation
  -- Preallocates room for all fields of an event: a table that grows is reallocated each time.
  local entry = { 'XADD', log, time.entry_id(log), 'ty', event_type, 'tn', tenant, 'ac', origin.actor, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil }
  local size = put_field(entry, 9, 'sc', scope)
  size = put_field(entry, size, 'ki', origin.key)
  size = put_field(entry, size, 'rq', origin.request)
  size = put_field(entry, size, 'tr', origin.trace and string.sub(origin.trace, 1, TRACE_LENGTH))
  size = put_field(entry, size, 'co', correlation)
  for i = 2, #figures, 2 do
    local value = figures[i]
    if value and value ~= '' then
      entry[size + 1], entry[size + 2] = figures[i - 1], value
      size = size + 2
    end
  end
  local entry_id = redis.call(unpack(entry))
  -- A damaged index must not end the script here, in the middle of its change: the event is in the log.
  redis.pcall('XADD', keys.tenant_events(tag, tenant), entry_id, 'y', event_type)
  if correlation and correlation ~= '' then
    redis.pcall('XADD', keys.correlated_events(tag, correlation), entry_id, 'y', event_type)
  end
  return entry_id
end

-- Ends the script if the log is not a stream. Scripts that append events call this before their first write: a later
-- error would leave a change without its event.
local function require_event_log(tag)
  redis.call('XLEN', keys.event_log(tag))
end

return { append_event = append_event, require_event_log = require_event_log }
