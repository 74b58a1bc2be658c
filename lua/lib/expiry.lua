-- expiry: the one transition from ACTIVE to EXPIRED.
-- The sweeper's scripts, every script that finds an overdue hold, and an operator's cleanup share it. The first to run
-- it expires the hold, so its amount returns once, with one charge if it has one, and one event.
-- `origin` is the request's, as append_event takes it, with `cleanup` set if an operator ends holds that await cleanup.
-- @include action_counters, ended_holds, event_writer, field, give_back, grouped, hold_record, int64, journal, keys,
--          owned_counts, time

-- Moves a hold that cannot be settled out of the sweeper's way, and emits an event. The hold's state and the budgets do
-- not change until an operator decides. `writable` is false if the key is not a hash. A hold already quarantined for
-- the same reason is not recorded or reported again; its outcome ends with `again`. `tenant` is its owner, or nil if
-- unknown.
local function quarantine(tag, reservation_id, key, reason, origin, tenant, writable)
  event_writer.require_event_log(tag)
  -- Read before an index is written: if the key is damaged, the entry must not be lost from the indexes.
  local earlier = redis.call('HGET', keys.quarantine(tag), reservation_id)
  hold_record.remove_deadlines(tag, reservation_id)
  if earlier and string.match(earlier, '^%S+') == reason then
    return { 'QUARANTINED', reason, tenant or '', 'again' }
  end
  local now_text = time.ms_text(time.now_ms())
  redis.call('HSET', keys.quarantine(tag), reservation_id, reason .. ' ' .. now_text)
  if writable then
    redis.call('HSET', key, field.quarantined_at, now_text, field.quarantine_reason, reason)
  end
  event_writer.append_event(tag, 'custom.reservation.quarantined', tenant or '__system__', nil,
    { actor = 'system', request = origin.request, trace = origin.trace },
    { 'reservation_id', reservation_id, 'reason', reason, 'quarantined_at', now_text })
  return { 'QUARANTINED', reason, tenant or '' }
end

-- Adds a hold to the returns, with what it costs, or returns why it cannot expire.
local function take(tag, returns, reservation_id, hold)
  local charge = hold[field.charge_on_expiry] or nil
  local defect = hold_record.terms_defect(hold)
    or charge and not (int64.is_amount(charge) and not int64.less(hold.amount, charge)) and 'INVALID_CHARGE'
  return defect or give_back.take_back(tag, returns, reservation_id, hold, charge ~= '0' and charge or nil)
end

local function expired_outcome(hold, deadline)
  return { hold.charge and 'CHARGED' or 'EXPIRED', hold.tenant, deadline, charge = hold.charge }
end

-- Expires the holds that `returns` has taken, by id, in one pass. All are in one index, which comes
-- first: if it is damaged, the script ends here, before a figure has changed. Then come the budgets, once each, and
-- then each hold's record and event.
local function end_expired(tag, returns, now, retention_ms, origin)
  local ids = returns.ids
  if #ids == 0 then
    return
  end
  local now_text = time.ms_text(now)
  event_writer.require_event_log(tag)
  journal.require_journal(tag)
  redis.call('ZCARD', keys.credit_index(tag))
  redis.call('ZREM', hold_record.deadline_index_key(tag, returns.holds[1]), unpack(ids))
  local teller, live_ended = { actor = 'system', request = origin.request, trace = origin.trace }, {}
  if origin.cleanup then
    teller.actor, teller.key = 'admin', origin.key
  end
  give_back.write_returns(tag, returns, teller)
  local ended_by = teller.key and teller.key ~= '' and teller.key or teller.actor
  for i = 1, #ids do
    local hold = returns.holds[i]
    local created_at, extensions_used = hold_record.whole_number(hold[field.created_at]), hold[field.extensions_used]
    local figures = { 'reservation_id', ids[i], 'unit', hold.unit, 'estimated_amount', hold.amount,
      'created_at', created_at and hold[field.created_at] or '', 'expired_at', now_text,
      'ttl_ms', time.ms_text(math.max(0, hold.expires_at - (created_at or hold.expires_at))),
      'extensions_used', hold_record.whole_number(extensions_used) and extensions_used or '0' }
    if hold.charge then
      figures[#figures + 1], figures[#figures + 2] = 'charged', hold.charge
    end
    local entry = event_writer.append_event(tag, 'reservation.expired', hold.tenant, hold.leaf, teller, figures)
    redis.call('HSET', hold.key, field.state, 'EXPIRED', field.ended_at, now_text, field.ended_by, ended_by,
      field.end_event, entry)
    if hold.paid ~= '' then
      redis.call('HSET', hold.key, field.credits, hold.paid)
    end
    redis.call('PEXPIRE', hold.key, retention_ms)
    journal.append_end(tag, ids[i], hold.charge or '0')
    -- A charge has used its place in the quota of the run, as a commit has.
    if not hold.charge then
      action_counters.uncount_run(tag, hold.tenant, hold[field.run_counters])
    end
    live_ended[hold.tenant] = (live_ended[hold.tenant] or 0) + 1
  end
  for tenant, count in pairs(live_ended) do
    owned_counts.count_ended(tag, tenant, count)
  end
  ended_holds.leave_quarantine(tag, unpack(ids))
  give_back.emit_return_crossings(tag, returns, teller)
end

-- The fields of a record that an expiry needs beside those that load_hold always reads.
local EXPIRY_FIELDS = { field.charge_on_expiry, field.created_at, field.extensions_used, field.run_counters }

-- Expires one overdue hold. Returns { 'EXPIRED' or 'CHARGED', tenant, reclaim deadline } or { 'QUARANTINED', reason,
-- tenant }.
local function expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  local returns = give_back.new_returns(now)
  local f = redis.call('HMGET', hold.key, unpack(EXPIRY_FIELDS))
  for i = 1, #EXPIRY_FIELDS do
    hold[EXPIRY_FIELDS[i]] = f[i]
  end
  local reason = take(tag, returns, reservation_id, hold)
  if reason then
    return quarantine(tag, reservation_id, hold.key, reason, origin, hold.tenant, true)
  end
  end_expired(tag, returns, now, retention_ms, origin)
  return expired_outcome(hold, time.ms_text(hold_record.reclaim_deadline(hold)))
end

-- Corrects the entry of a live hold that was found in `index`. Does not add a missing entry.
local function put_in_place(tag, index, reservation_id, hold, deadline)
  local home = hold_record.deadline_index_key(tag, hold)
  if home == index then
    redis.call('ZADD', home, 'XX', deadline, reservation_id)
  elseif redis.call('ZSCORE', index, reservation_id) then
    redis.call('ZADD', home, deadline, reservation_id)
    redis.call('ZREM', index, reservation_id)
  end
end

-- Why a live hold does not expire now, or nil. An operator's cleanup skips the holds that the sweeper expires.
local function skip_reason(hold, now, origin)
  if hold_record.awaits_cleanup(hold, now) then
    return not origin.cleanup and 'awaiting_cleanup' or nil
  elseif hold_record.is_overdue(hold, now) then
    return origin.cleanup and 'left_to_sweep' or nil
  end
  return hold.state == 'ACTIVE' and 'in_grace_period' or nil
end

-- Checks entries of `index`, by default the TTL index, or the cleanup index for an operator's cleanup, and acts on
-- them. Returns an outcome for each, as lua/expiry/expire.lua does.
-- All entries are checked before the first due one expires. Entries that are not due are handled during the check.
local function reclaim(tag, reservation_ids, now, retention_ms, origin, index)
  local returns = give_back.new_returns(now)
  index = index or origin.cleanup and keys.cleanup_index(tag) or keys.ttl_index(tag)

  local function judge(reservation_id)
    if returns.taken[reservation_id] then
      return { 'SKIP', 'EXPIRED' }
    end
    local key = keys.reservation(tag, reservation_id)
    local readable, hold = pcall(hold_record.load_hold, key, unpack(EXPIRY_FIELDS))
    if not readable then
      return quarantine(tag, reservation_id, key, 'NOT_A_RECORD', origin, nil, false)
    end
    if not hold then
      redis.call('ZREM', index, reservation_id)
      return { 'NOT_FOUND' }
    end
    if hold.state ~= 'ACTIVE' and hold_record.HOLD_STATES[hold.state] then
      redis.call('ZREM', index, reservation_id)
      return { 'SKIP', hold.state }
    end
    local deadline = hold.expires_at and hold.grace_ms and time.ms_text(hold_record.reclaim_deadline(hold))
    local skipped = skip_reason(hold, now, origin)
    if deadline and skipped then
      -- Without this, an entry whose score disagrees with its record would come up forever.
      put_in_place(tag, index, reservation_id, hold, deadline)
      return { 'SKIP', skipped, deadline }
    end
    local reason = take(tag, returns, reservation_id, hold)
    if reason then
      return quarantine(tag, reservation_id, key, reason, origin, hold.tenant, true)
    end
    return expired_outcome(hold, deadline)
  end

  local outcomes = {}
  for i = 1, #reservation_ids do
    outcomes[i] = judge(reservation_ids[i])
  end
  end_expired(tag, returns, now, retention_ms, origin)
  return outcomes
end

-- Outcomes as a flat list of three texts each.
local function flat_outcomes(outcomes)
  local flat = {}
  for i = 1, #outcomes do
    for part = 1, 3 do
      flat[#flat + 1] = outcomes[i][part] or ''
    end
  end
  return flat
end

-- The entries that one run checks before its script decides.
local RECLAIM_LIMIT = 100

-- Checks and reclaims what is due in the partition. Returns the reply of the script, RECLAIMED, after which its caller
-- runs it again; or nil if nothing is due.
-- An expired hold counts for nothing. So a script calls this before it refuses, caps, indebts or marks anything because
-- of what remains in a budget or a window, or because of what a tenant or a run has live. `group` is nil in a script
-- that has none.
local function reclaimed(group, tag, now, retention_ms, origin)
  local index = keys.ttl_index(tag)
  local due = redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. time.ms_text(now), 'LIMIT', 0, RECLAIM_LIMIT)
  if #due == 0 then
    return nil
  end
  if group then
    grouped.leave(group, tag)
  end
  return { 'RECLAIMED', time.ms_text(now), unpack(flat_outcomes(reclaim(tag, due, now, retention_ms, origin, index))) }
end

return {
  expire_hold = expire_hold, flat_outcomes = flat_outcomes, quarantine = quarantine, reclaim = reclaim,
  reclaimed = reclaimed,
}
