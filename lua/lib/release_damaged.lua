-- release_damaged: ends a live hold that cannot be settled. Returns what it can to the budgets and leaves a valid record.
-- @include fields: FIELD, LEVEL_FIELDS
-- @include keys: ttl_index_key, cleanup_index_key
-- @include now_ms: ms_text
-- @include hold: fields_with_subject, remove_deadlines
-- @include record: SUBJECT_FIELDS, record_fields
-- @include damage: known_fields
-- @include returnable_budgets: returnable_budgets
-- @include threshold: watched_marks, crossings_of, emit_crossings
-- @include ended: note_ended, keep_ended
-- @include append_event: require_event_log
-- @include owned: count_ended
-- @include action_counters: uncount_run
-- @include wake_waiters: wake_waiters
--
-- Each budget is checked separately (lua/lib/returnable_budgets.lua). The record's scope mask then has the scopes that got their
-- share back. Errors occur only before the first write.

local function released_mask(scopes, refunded)
  local given = {}
  for _, budget in ipairs(refunded) do
    given[budget.scope] = true
  end
  local mask = {}
  for i, scope in ipairs(scopes) do
    mask[i] = given[scope] and '1' or '0'
  end
  return table.concat(mask)
end

-- Rewrites all fields of a record. A limited number per write, because a damaged record may have thousands.
local FIELDS_A_WRITE = 200

local function rewrite_record(key, fields)
  local is_subject, levels, flat = {}, {}, {}
  for _, name in ipairs(SUBJECT_FIELDS) do
    is_subject[name] = true
  end
  for _, name in ipairs(LEVEL_FIELDS) do
    if fields[name] then
      levels[#levels + 1], levels[#levels + 2] = name, fields[name]
    end
  end
  for name, value in pairs(fields) do
    if not is_subject[name] then
      flat[#flat + 1], flat[#flat + 2] = name, value
    end
  end
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(fields_with_subject(fields[FIELD.tenant], fields[FIELD.unit], fields[FIELD.scope_mask], levels, 1)))
  for first = 1, #flat, FIELDS_A_WRITE do
    redis.call('HSET', key, unpack(flat, first, math.min(first + FIELDS_A_WRITE - 1, #flat)))
  end
end

-- Repairs the record of a hold that has already ended, and keeps its expiry.
local function mend_ended(tag, reservation_id, hold, tenant, created_at)
  local goes_at = redis.call('PEXPIRETIME', hold.key)
  local known = known_fields(hold.key, record_fields(hold.key), tenant, created_at)
  known[FIELD.quarantined_at], known[FIELD.quarantine_reason] = nil, nil
  known[FIELD.ended_at] = known[FIELD.ended_at] or known[FIELD.created_at]
  if known[FIELD.state] == 'COMMITTED' then
    known[FIELD.charged] = known[FIELD.charged] or '0'
  end
  rewrite_record(hold.key, known)
  if goes_at > 0 then
    redis.call('PEXPIREAT', hold.key, ms_text(goes_at))
  end
  note_ended(tag, reservation_id)
end

-- `by` ended it, for `reason` (or empty). Returns the lists of returnable_budgets, with the refunds written, and the record's fields.
local function release_damaged(tag, reservation_id, hold, tenant, created_at, by, reason, now, retention_ms, origin)
  require_event_log(tag)
  redis.call('ZCARD', ttl_index_key(tag))
  redis.call('ZCARD', cleanup_index_key(tag))
  local refunded, kept = {}, {}
  if hold.tenant == tenant then
    refunded, kept = returnable_budgets(tag, hold)
  end
  local marks = tenant and watched_marks(tag, tenant)
  local known = known_fields(hold.key, record_fields(hold.key), tenant, created_at)

  remove_deadlines(tag, tenant, reservation_id)
  for _, budget in ipairs(refunded) do
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
    if budget.waiting then
      wake_waiters(budget.key)
    end
  end
  if not hold.subject.defect then
    known[FIELD.scope_mask] = released_mask(hold.scopes, refunded)
  end
  known[FIELD.state], known[FIELD.ended_at], known[FIELD.ended_by] = 'RELEASED', ms_text(now), by
  known[FIELD.release_reason] = reason ~= '' and reason or nil
  known[FIELD.quarantined_at], known[FIELD.quarantine_reason] = nil, nil
  known[FIELD.charged], known[FIELD.commit_metadata], known[FIELD.end_event] = nil, nil, nil
  rewrite_record(hold.key, known)
  if tenant then
    count_ended(tag, tenant, 1)
    uncount_run(tag, tenant, known[FIELD.run_counters])
  end
  keep_ended(tag, reservation_id, retention_ms)
  for _, budget in ipairs(refunded) do
    local crossings = crossings_of(marks, budget.allocated, budget.remaining_figure, budget.debt, budget.remaining, budget.debt)
    if crossings then
      emit_crossings(tag, tenant, origin, hold.unit, budget, crossings)
    end
  end
  return refunded, kept, known
end

-- The figures of an event about a decision on a reservation in quarantine.
local function decision_figures(reservation_id, action, outcome, quarantine_reason, reason, returned)
  return { 'reservation_id', reservation_id, 'action', action, 'outcome', outcome, 'quarantine_reason', quarantine_reason,
    'reason', reason, 'returned_amount', returned }
end
