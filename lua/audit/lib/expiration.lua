-- expiration: finds expirations and quarantines in an event log.
-- A search is `from` and `to`, inclusive, in ms; `tenant_id`; `tenants`, those of the operator; `scope`, the
-- reservation's or one above it; `state`, EXPIRED or QUARANTINED. The last four may be empty for all.
-- @include confinement, stream_walk
local EXPIRATION_STATES = { ['reservation.expired'] = 'EXPIRED', ['custom.reservation.quarantined'] = 'QUARANTINED' }

local function is_wanted(fields, found, search)
  local tenant_id, scope, state = search.tenant_id, search.scope, search.state
  local owner = stream_walk.value_of(fields, 'tn')
  if state ~= '' and found ~= state or tenant_id ~= '' and owner ~= tenant_id or
    not confinement.may_act_for(search.tenants, owner) then
    return false
  end
  local at = scope ~= '' and (stream_walk.value_of(fields, 'sc') or '') or scope
  return at == scope or string.sub(at, 1, #scope + 1) == scope .. '/'
end

local function expiration_search(from_ms, to_ms, tenant_id, tenants, scope, state)
  return {
    from = from_ms == '-inf' and -math.huge or tonumber(from_ms),
    to = to_ms == '+inf' and math.huge or tonumber(to_ms),
    tenant_id = tenant_id,
    tenants = tenants,
    scope = scope,
    state = state,
  }
end

-- Returns when the entry's expiration happened and its state, or nil if the search is not about it; third, whether the
-- entry and all after it are later than the search. The time is the one its script decided by. It is slightly earlier
-- than that of the entry's id but in the same order, as scripts run one after another.
local function expiration_of(entry, search)
  local fields = entry[2]
  local found = EXPIRATION_STATES[stream_walk.value_of(fields, 'ty')]
  if not found then
    return nil
  end
  local recorded_at = stream_walk.value_of(fields, 'expired_at') or stream_walk.value_of(fields, 'quarantined_at')
  local at = tonumber(recorded_at or string.match(entry[1], '^%d+'))
  if at > search.to then
    return nil, nil, true
  end
  if at >= search.from and is_wanted(fields, found, search) then
    return at, found
  end
  return nil
end

return { expiration_of = expiration_of, expiration_search = expiration_search }
