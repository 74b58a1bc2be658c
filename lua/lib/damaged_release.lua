-- damaged_release: ends a live hold that cannot be settled. Returns what it can to the budgets and leaves a valid
-- record.
-- @include action_counters, credit_record, credit_turn, damage, ended_holds, event_writer, field, hold_form,
--          hold_record, int64, journal, keys,
--          owned_counts, returnable, threshold, time, waking
--
-- Each budget is checked separately (lua/lib/returnable.lua). The record's scope mask then has the scopes that got
-- their share back. Errors occur only before the first write.

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
  for _, name in ipairs(hold_form.SUBJECT_FIELDS) do
    is_subject[name] = true
  end
  for _, name in ipairs(field.LEVELS) do
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
  redis.call('HSET', key,
    unpack(hold_record.fields_with_subject(fields[field.tenant], fields[field.unit], fields[field.scope_mask],
    levels, 1)))
  for first = 1, #flat, FIELDS_A_WRITE do
    redis.call('HSET', key, unpack(flat, first, math.min(first + FIELDS_A_WRITE - 1, #flat)))
  end
end

-- Repairs the record of a hold that has already ended, and keeps its expiry.
local function mend_ended(tag, reservation_id, hold, tenant, created_at)
  local goes_at = redis.call('PEXPIRETIME', hold.key)
  local known = damage.known_fields(hold.key, hold_form.record_fields(hold.key), tenant, created_at)
  known[field.quarantined_at], known[field.quarantine_reason] = nil, nil
  known[field.ended_at] = known[field.ended_at] or known[field.created_at]
  if known[field.state] == 'COMMITTED' then
    known[field.charged] = known[field.charged] or '0'
  end
  rewrite_record(hold.key, known)
  if goes_at > 0 then
    redis.call('PEXPIREAT', hold.key, time.ms_text(goes_at))
  end
  -- So that it is packed again.
  journal.append_mended(tag, reservation_id, journal.charge_of_end(known[field.state], known))
  ended_holds.leave_quarantine(tag, reservation_id)
end

-- `by` ended it, for `reason` (or empty). Returns the lists of returnable_budgets, with the refunds written, and the
-- record's fields.
local function release_damaged(tag, reservation_id, hold, tenant, created_at, by, reason, now, retention_ms, origin)
  event_writer.require_event_log(tag)
  journal.require_journal(tag)
  redis.call('ZCARD', keys.ttl_index(tag))
  redis.call('ZCARD', keys.cleanup_index(tag))
  redis.call('ZCARD', keys.credit_index(tag))
  local refunded, kept = {}, {}
  if hold.tenant == tenant then
    refunded, kept = returnable.returnable_budgets(tag, hold)
  end
  local marks = tenant and threshold.watched_marks(tag, tenant, hold.unit)
  local known = damage.known_fields(hold.key, hold_form.record_fields(hold.key), tenant, created_at)

  for _, budget in ipairs(refunded) do
    -- A hold whose time is not known draws on no pin.
    local made_at, left = tonumber(created_at or '') or math.huge,
      { allocated = budget.allocated, credits_text = budget.credits_text }
    local readable, lapsed = pcall(credit_record.leave, left, budget.reserved, made_at, hold.amount, 0)
    if budget.credits_text and readable then
      budget.remaining, budget.former_allocated = int64.text(int64.sub(budget.remaining, lapsed)), budget.allocated
      budget.allocated, budget.credits_text, budget.credit_effects =
        left.allocated, left.credits_text, left.credit_effects
    end
  end

  hold_record.remove_deadlines(tag, reservation_id)
  for _, budget in ipairs(refunded) do
    if budget.credit_effects then
      credit_turn.write_left(budget)
    end
    redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
    if budget.waiting then
      waking.wake_waiters(budget.key)
    end
  end
  if not hold.subject.defect then
    known[field.scope_mask] = released_mask(hold.scopes, refunded)
  end
  known[field.state], known[field.ended_at], known[field.ended_by] = 'RELEASED', time.ms_text(now), by
  known[field.release_reason] = reason ~= '' and reason or nil
  known[field.quarantined_at], known[field.quarantine_reason] = nil, nil
  known[field.charged], known[field.commit_metadata], known[field.end_event] = nil, nil, nil
  rewrite_record(hold.key, known)
  if tenant then
    owned_counts.count_ended(tag, tenant, 1)
    action_counters.uncount_run(tag, tenant, known[field.run_counters])
  end
  ended_holds.end_uncharged(tag, reservation_id, retention_ms, origin)
  for _, budget in ipairs(refunded) do
    for _, effects in ipairs(budget.credit_effects or {}) do
      credit_turn.write_effects(tag, tenant, hold.unit, budget.scope, origin, effects, now)
    end
    local crossings = threshold.crossings_of(marks, budget.allocated, budget.remaining_figure, budget.debt,
      budget.remaining, budget.debt, budget.former_allocated)
    if crossings then
      threshold.emit_crossings(tag, tenant, origin, hold.unit, budget, crossings)
    end
  end
  return refunded, kept, known
end

-- The figures of an event about a decision on a reservation in quarantine.
local function decision_figures(reservation_id, action, outcome, quarantine_reason, reason, returned)
  return { 'reservation_id', reservation_id, 'action', action, 'outcome', outcome, 'quarantine_reason',
    quarantine_reason, 'reason', reason, 'returned_amount', returned }
end

return { decision_figures = decision_figures, mend_ended = mend_ended, release_damaged = release_damaged }
