-- expiry: the one transition from ACTIVE to EXPIRED, shared by the sweeper's scripts, by every script that meets an overdue
-- hold, and by an operator's cleanup. Whoever comes first runs it; there is one refund and one event.
-- `origin` is the request's, as append_event takes it, with `cleanup` set where an operator ends holds that await cleanup.
-- @include fields: FIELD
-- @include keys: reservation_key, ttl_index_key, cleanup_index_key, quarantine_key
-- @include hold: HOLD_STATES, whole_number, load_hold, terms_defect, reclaim_deadline, is_overdue, awaits_cleanup, deadline_index_key
-- @include refund: new_refunds, take_back, write_refunds, emit_refund_crossings
-- @include append_event: append_event, require_event_log
-- @include now_ms: ms_text
-- @include ended: note_ended
-- @include owned: count_ended
-- @include group: leave_group

-- Takes a hold that cannot be settled out of the sweeper's way, and says so. Its state and the budgets stay as they are
-- for an operator to decide on; `writable` is false when the record is no hash at all. A client that comes back to a
-- quarantined hold finds it so: the same reason is recorded and told once, and the outcome ends with `again` after that.
local function quarantine(tag, reservation_id, key, reason, now, origin, tenant, writable)
  require_event_log(tag)
  -- Read before an index is written: where one of these is damaged, the entry must not be lost from all of them.
  local earlier = redis.call('HGET', quarantine_key(tag), reservation_id)
  redis.call('ZCARD', cleanup_index_key(tag))
  redis.call('ZREM', ttl_index_key(tag), reservation_id)
  redis.call('ZREM', cleanup_index_key(tag), reservation_id)
  if earlier and string.match(earlier, '^%S+') == reason then
    return { 'QUARANTINED', reason, tenant or '', 'again' }
  end
  redis.call('HSET', quarantine_key(tag), reservation_id, reason .. ' ' .. ms_text(now))
  if writable then
    redis.call('HSET', key, FIELD.quarantined_at, ms_text(now), FIELD.quarantine_reason, reason)
  end
  append_event(tag, 'custom.reservation.quarantined', tenant or '__system__', nil,
    { actor = 'system', request = origin.request, trace = origin.trace },
    { 'reservation_id', reservation_id, 'reason', reason, 'quarantined_at', ms_text(now) })
  return { 'QUARANTINED', reason, tenant or '' }
end

-- Expires the holds that `refunds` has taken, by id, in one go: the index first, for where it is damaged the script ends here,
-- before a figure has moved; then the budgets, each once; then what each hold's own record and event say.
local function end_expired(tag, refunds, now, retention_ms, origin)
  local ids, now_text = refunds.ids, ms_text(now)
  if #ids == 0 then
    return
  end
  require_event_log(tag)
  redis.call('ZREM', origin.cleanup and cleanup_index_key(tag) or ttl_index_key(tag), unpack(ids))
  write_refunds(refunds)
  local ended_by, live_ended = origin.cleanup and 'admin' or 'system', {}
  local teller = { actor = ended_by, request = origin.request, trace = origin.trace }
  for i = 1, #ids do
    local hold = refunds.holds[i]
    local created_at, extensions_used = whole_number(hold[FIELD.created_at]), hold[FIELD.extensions_used]
    local entry = append_event(tag, 'reservation.expired', hold.tenant, hold.leaf, teller,
      { 'reservation_id', ids[i], 'unit', hold.unit, 'estimated_amount', hold.amount,
        'created_at', created_at and hold[FIELD.created_at] or '', 'expired_at', now_text,
        'ttl_ms', ms_text(math.max(0, hold.expires_at - (created_at or hold.expires_at))),
        'extensions_used', whole_number(extensions_used) and extensions_used or '0' })
    redis.call('HSET', hold.key, FIELD.state, 'EXPIRED', FIELD.ended_at, now_text, FIELD.ended_by, ended_by, FIELD.end_event, entry)
    redis.call('PEXPIRE', hold.key, retention_ms)
    live_ended[hold.tenant] = (live_ended[hold.tenant] or 0) + 1
  end
  for tenant, count in pairs(live_ended) do
    count_ended(tag, tenant, count)
  end
  note_ended(tag, unpack(ids))
  emit_refund_crossings(tag, refunds, teller)
end

-- Expires one hold that is_overdue. Returns { 'EXPIRED', tenant, reclaim deadline } or { 'QUARANTINED', reason, tenant }.
local function expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  local refunds = new_refunds()
  local reason = terms_defect(hold) or take_back(tag, refunds, reservation_id, hold)
  if reason then
    return quarantine(tag, reservation_id, hold.key, reason, now, origin, hold.tenant, true)
  end
  if hold[FIELD.created_at] == nil or hold[FIELD.extensions_used] == nil then
    local f = redis.call('HMGET', hold.key, FIELD.created_at, FIELD.extensions_used)
    hold[FIELD.created_at], hold[FIELD.extensions_used] = f[1], f[2]
  end
  end_expired(tag, refunds, now, retention_ms, origin)
  return { 'EXPIRED', hold.tenant, ms_text(reclaim_deadline(hold)) }
end

-- Corrects the place of a live hold that was met in `index`. It is not added where it was in no index.
local function put_in_place(tag, index, reservation_id, hold, deadline)
  local home = deadline_index_key(tag, hold)
  if home == index then
    redis.call('ZADD', home, 'XX', deadline, reservation_id)
  elseif redis.call('ZSCORE', index, reservation_id) then
    redis.call('ZADD', home, deadline, reservation_id)
    redis.call('ZREM', index, reservation_id)
  end
end

-- Why a live hold is not to be expired now, or nil. An operator's cleanup leaves to the sweeper what is the sweeper's.
local function skip_reason(hold, now, origin)
  if awaits_cleanup(hold, now) then
    return not origin.cleanup and 'awaiting_cleanup' or nil
  elseif is_overdue(hold, now) then
    return origin.cleanup and 'left_to_sweep' or nil
  end
  return hold.state == 'ACTIVE' and 'in_grace_period' or nil
end

-- Judges entries of the TTL index, or of the cleanup index for an operator's cleanup, and acts on them. Returns an outcome for each,
-- as lua/expiry/expire.lua returns it.
-- All are judged before the first of those that are due is expired. What is not due is dealt with as it is met.
local function reclaim(tag, reservation_ids, now, retention_ms, origin)
  local refunds = new_refunds()
  local index = origin.cleanup and cleanup_index_key(tag) or ttl_index_key(tag)

  local function judge(reservation_id)
    if refunds.taken[reservation_id] then
      return { 'SKIP', 'EXPIRED' }
    end
    local key = reservation_key(tag, reservation_id)
    local readable, hold = pcall(load_hold, key, FIELD.created_at, FIELD.extensions_used)
    if not readable then
      return quarantine(tag, reservation_id, key, 'NOT_A_RECORD', now, origin, nil, false)
    end
    if not hold then
      redis.call('ZREM', index, reservation_id)
      return { 'NOT_FOUND' }
    end
    if hold.state ~= 'ACTIVE' and HOLD_STATES[hold.state] then
      redis.call('ZREM', index, reservation_id)
      return { 'SKIP', hold.state }
    end
    local deadline = hold.expires_at and hold.grace_ms and ms_text(reclaim_deadline(hold))
    local skipped = skip_reason(hold, now, origin)
    if deadline and skipped then
      -- An entry whose index disagrees with its record would come up for ever.
      put_in_place(tag, index, reservation_id, hold, deadline)
      return { 'SKIP', skipped, deadline }
    end
    local reason = terms_defect(hold) or take_back(tag, refunds, reservation_id, hold)
    if reason then
      return quarantine(tag, reservation_id, key, reason, now, origin, hold.tenant, true)
    end
    return { 'EXPIRED', hold.tenant, deadline }
  end

  local outcomes = {}
  for i = 1, #reservation_ids do
    outcomes[i] = judge(reservation_ids[i])
  end
  end_expired(tag, refunds, now, retention_ms, origin)
  return outcomes
end

-- Outcomes as a flat list of threes.
local function flat_outcomes(outcomes)
  local flat = {}
  for i = 1, #outcomes do
    for part = 1, 3 do
      flat[#flat + 1] = outcomes[i][part] or ''
    end
  end
  return flat
end

-- Judges what is due in the partition, at most `limit` entries. Returns their outcomes as a flat list of threes.
local function reclaim_due(group, tag, now, limit, retention_ms, origin)
  local due = redis.call('ZRANGEBYSCORE', ttl_index_key(tag), '-inf', '(' .. ms_text(now), 'LIMIT', 0, limit)
  if #due == 0 then
    return {}
  end
  leave_group(group, tag)
  return flat_outcomes(reclaim(tag, due, now, retention_ms, origin))
end
