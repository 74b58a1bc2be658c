-- expiry: the one transition from ACTIVE to EXPIRED, shared by the sweeper's script and by every script that meets an
-- overdue hold. Whoever comes first runs it; there is one refund and one event.
-- @include keys, int64, hold, budget, append_event, now_ms, ended

-- Takes a hold that cannot be settled out of the sweeper's way, and says so. Its state and the budgets stay as they are
-- for an operator to decide on; `writable` is false when the record is no hash at all. A client that comes back to a
-- quarantined hold finds it so: the same reason is recorded and told once.
local function quarantine(tag, reservation_id, key, reason, now, origin, tenant, writable)
  require_event_log(tag)
  -- Read before the index is written: where the quarantine is damaged, the entry must not be lost from both.
  local earlier = redis.call('HGET', quarantine_key(tag), reservation_id)
  redis.call('ZREM', ttl_index_key(tag), reservation_id)
  if earlier and string.match(earlier, '^%S+') == reason then
    return { 'QUARANTINED', reason, tenant or '' }
  end
  redis.call('HSET', quarantine_key(tag), reservation_id, reason .. ' ' .. ms_text(now))
  if writable then
    redis.call('HSET', key, 'qa', ms_text(now), 'qr', reason)
  end
  append_event(tag, 'custom.reservation.quarantined', tenant or '__system__', nil,
    { actor = 'system', request = origin.request, trace = origin.trace },
    { 'reservation_id', reservation_id, 'reason', reason, 'quarantined_at', ms_text(now) })
  return { 'QUARANTINED', reason, tenant or '' }
end

-- The refunded budgets of a hold, or nil and the reason why they cannot be refunded. Only the two figures that the refund
-- moves are read, and must be sound: a budget that is damaged elsewhere is given back to all the same.
local function refunded_budgets(tag, hold)
  local budgets = {}
  for _, scope in ipairs(held_scopes(hold)) do
    local key = budget_key(tag, hold.unit, scope)
    local figures = redis.pcall('HMGET', key, 'remaining', 'reserved', 'status')
    local remaining, reserved = figures[1], figures[2]
    if not figures.err and not figures[3] and not remaining and not reserved then
      return nil, 'MISSING_BUDGET'
    end
    if not (figures[3] and remaining and reserved and string.find(remaining, '^%-?%d+$') and string.find(reserved, '^%-?%d+$')) then
      return nil, 'INVALID_BUDGET'
    end
    remaining, reserved = i64_add(remaining, hold.amount), i64_sub(reserved, hold.amount)
    if not remaining or not reserved or string.sub(reserved, 1, 1) == '-' then
      return nil, 'INVALID_BUDGET'
    end
    budgets[#budgets + 1] = { key = key, remaining = remaining, reserved = reserved }
  end
  return budgets
end

-- Expires a hold that is_overdue. Returns { 'EXPIRED', tenant, reclaim deadline } or { 'QUARANTINED', reason, tenant }.
local function expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  local reason = hold_defect(hold)
  local budgets
  if not reason then
    budgets, reason = refunded_budgets(tag, hold)
  end
  if reason then
    return quarantine(tag, reservation_id, hold.key, reason, now, origin, hold.tenant, true)
  end
  require_event_log(tag)
  redis.call('ZREM', ttl_index_key(tag), reservation_id)
  for _, budget in ipairs(budgets) do
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
  end
  local entry = append_event(tag, 'reservation.expired', hold.tenant, hold.scopes[#hold.scopes],
    { actor = 'system', request = origin.request, trace = origin.trace },
    { 'reservation_id', reservation_id, 'unit', hold.unit, 'estimated_amount', hold.amount,
      'created_at', hold.created_at and ms_text(hold.created_at) or '', 'expired_at', ms_text(now),
      'ttl_ms', ms_text(math.max(0, hold.expires_at - (hold.created_at or hold.expires_at))),
      'extensions_used', ms_text(hold.extensions or 0) })
  redis.call('HSET', hold.key, 'st', 'EXPIRED', 'fa', ms_text(now), 'eb', 'system', 'ev', entry)
  keep_ended(tag, reservation_id, retention_ms, hold.quarantined)
  return { 'EXPIRED', hold.tenant, ms_text(reclaim_deadline(hold)) }
end

-- Judges one entry of the TTL index and acts on it. The outcomes are those that lua/expire.lua returns.
local function reclaim(tag, reservation_id, now, retention_ms, origin)
  local key = reservation_key(tag, reservation_id)
  local readable, hold = pcall(load_hold, key)
  if not readable then
    return quarantine(tag, reservation_id, key, 'NOT_A_RECORD', now, origin, nil, false)
  end
  if not hold then
    redis.call('ZREM', ttl_index_key(tag), reservation_id)
    return { 'NOT_FOUND' }
  end
  if hold.state ~= 'ACTIVE' and HOLD_STATES[hold.state] then
    redis.call('ZREM', ttl_index_key(tag), reservation_id)
    return { 'SKIP', hold.state }
  end
  if hold.state == 'ACTIVE' and hold.expires_at and hold.grace_ms and now <= reclaim_deadline(hold) then
    -- The score is put right here, for an entry whose index disagrees with its record would come up for ever.
    redis.call('ZADD', ttl_index_key(tag), 'XX', ms_text(reclaim_deadline(hold)), reservation_id)
    return { 'SKIP', 'in_grace_period', ms_text(reclaim_deadline(hold)) }
  end
  return expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
end

-- Judges what is due in the partition, at most `limit` entries. Returns their outcomes as a flat list of threes.
local function reclaim_due(tag, now, limit, retention_ms, origin)
  local due = redis.call('ZRANGEBYSCORE', ttl_index_key(tag), '-inf', '(' .. ms_text(now), 'LIMIT', 0, limit)
  local outcomes = {}
  for _, reservation_id in ipairs(due) do
    local outcome = reclaim(tag, reservation_id, now, retention_ms, origin)
    for part = 1, 3 do
      outcomes[#outcomes + 1] = outcome[part] or ''
    end
  end
  return outcomes
end
