-- owned: how much a tenant owns, and the limits on it.
-- @include keys, now_ms
--
-- A tenant's own limits are fields 'max:<limit>' of a hash apart from its record; a limit that is not there is the deployment's, and
-- 0 is no limit. A hash that somebody damaged counts as empty: nothing is refused because of it.

-- The refusal to add one more to a sorted set that has a member for each thing of its kind that the tenant owns, or nil.
local function count_refusal(tag, tenant_id, limit, deployment_limit, index)
  local own = redis.pcall('HGET', owned_key(tag, tenant_id), 'max:' .. limit)
  local allowed = tonumber(type(own) == 'string' and own or deployment_limit)
  if allowed == 0 then
    return nil
  end
  local used = redis.call('ZCARD', index)
  return used >= allowed and { 'LIMIT_EXCEEDED', limit, ms_text(allowed), ms_text(used) } or nil
end

-- Bytes that a reservation takes on average: its record, its places in the indexes, and for a day its idempotency records; and
-- an event with its place in the tenant's index. bench/audit-bytes measures both.
local RESERVATION_BYTES, EVENT_BYTES = 1000, 400

-- The estimate of what is stored for a tenant; `text` are the bytes of the free texts in its reservations.
local function stored_bytes(tag, tenant_id, text)
  return redis.call('ZCARD', reservation_index_key(tag, tenant_id)) * RESERVATION_BYTES
    + redis.call('XLEN', tenant_events_key(tag, tenant_id)) * EVENT_BYTES + text
end
