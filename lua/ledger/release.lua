#!lua flags=allow-oom
-- release: return a hold unused. Neither debt nor a frozen budget prevents this.
-- A hold under MANUAL_CLEANUP can also be released after its grace.
--
-- KEYS[1]   reservation      hash
-- KEYS[2]   idempotency      string, the record of this request
-- ARGV[1]   tenant_id        effective tenant, or empty for an operator, who may release any hold
-- ARGV[2]   reservation_id
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   reason           free text, or empty
-- ARGV[5]   idempotency_ttl_ms
-- ARGV[6]   retention_ms     how long the ended record is kept for the audit view
-- ARGV[7]   key_id           the requesting API key, or the operator; empty for the admin key
-- ARGV[8]   request_id
-- ARGV[9]   trace            trace id and flags, then the sender: see lib/audit_log
-- RETURNS   RELEASED answer:fresh|replay released unit balances(scope balance)* | IDEMPOTENCY_MISMATCH
--           | NOT_FOUND [defect]
--           | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state
--           | RESERVATION_EXPIRED [on_access:now|charged tenant deadline_ms now_ms]
--           | QUARANTINED reason tenant? [again:again]
-- BOUND     scopes of one subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- ATTESTED  its outcome can become evidence
-- EMITS     budget.threshold_crossed, custom.reservation.quarantine_decided; those of the expiry transition
-- @include  action_counters, audit_log, brief_figures, budget_figures, credit_record, credit_turn, damage,
--           damaged_release, ended_holds,
--           event_writer, expiry, field, grouped, hold_record, idempotency_record, int64, journal, keys,
--           owned_counts, run_time, settle, shared_budgets, threshold, time, waking
--
-- An operator's release is written to the audit log in the same run. A hold with a damaged record returns what it can,
-- and its record is valid afterwards. If only the budgets do not match, an operator alone may write off what they
-- cannot take back.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idempotency_ttl_ms, retention_ms, key_id = ARGV[5], ARGV[6], ARGV[7]
local by_operator = tenant_id == ''
local ended_by = by_operator and key_id == '' and 'admin' or key_id
local origin = { actor = by_operator and 'admin_on_behalf_of' or 'api_key', key = key_id, request = ARGV[8],
  trace = ARGV[9] }

local tag = keys.tag_of(reservation)
local group = grouped.new()
local now = run_time.now(group)

local earlier = settle.earlier_settlement(tag, reservation_id, idempotency, fingerprint, 'RELEASED')
if earlier then
  return earlier
end
if by_operator then
  audit_log.require_audit_log(tag)
end

local hold, refusal, damaged, owner, created_at =
  settle.open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin, field.run_counters)
local budgets
if hold then
  local sound, found = pcall(settle.held_budgets, group, tag, hold)
  if not sound and (not by_operator or redis.call('HEXISTS', keys.quarantine(tag), reservation_id) == 0) then
    error(found, 0)
  elseif sound and found then
    budgets = shared_budgets.copies_of(found)
  else
    owner, created_at = damage.owner_of(tag, reservation_id, hold.tenant)
    damaged, refusal = hold,
      expiry.quarantine(tag, reservation_id, reservation, sound and 'MISSING_BUDGET' or 'INVALID_BUDGET', origin,
      owner, true)
  end
end
if not hold and not damaged or damaged and not by_operator and not damaged.defect then
  return refusal
end
-- Returns what can be returned of a hold in quarantine.
local function release_from_quarantine()
  local refunded, _, known =
    damaged_release.release_damaged(tag, reservation_id, damaged, owner, created_at, ended_by, reason, now,
    settle.settled_retention(retention_ms, idempotency_ttl_ms), origin)
  local amount = #refunded > 0 and damaged.amount or '0'
  local reply, parts = { 'RELEASED', 'fresh', amount, known[field.unit] }, { amount }
  for _, budget in ipairs(refunded) do
    local text = budget_figures.balance_text(budget)
    reply[#reply + 1] = budget.scope
    reply[#reply + 1] = text
    parts[#parts + 1] = brief_figures.stored_balance_text(text)
  end
  local quarantine_reason = refusal[2]
  event_writer.append_event(tag, 'custom.reservation.quarantine_decided', known[field.tenant], nil, origin,
    damaged_release.decision_figures(reservation_id, 'release', 'RELEASED', quarantine_reason, reason,
    #refunded > 0 and amount or ''))
  if by_operator then
    audit_log.append_audit(tag, 'releaseReservation', 200, known[field.tenant], 'reservation', reservation_id, origin,
      { 'scope', refunded[#refunded] and refunded[#refunded].scope or '', 'unit', known[field.unit], 'amount', amount,
      'reason', reason,
        'quarantine_reason', quarantine_reason })
  end
  idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
  return reply
end
if damaged then
  return release_from_quarantine()
end

local held, marks, emits, made_at = int64.figure(hold.amount), threshold.marks_of(hold.marks, hold.unit), false, nil
for _, budget in ipairs(budgets) do
  local former, debt = budget.remaining_figure, budget.debt_figure
  local remaining, reserved = int64.add(former, held), int64.sub(budget.reserved_figure, held)
  if not remaining or not reserved or int64.negative(reserved) then
    error('budget ' .. budget.key .. ' holds less than the reservation that leaves it')
  end
  local allocated = budget.allocated_figure
  if budget.credits_text then
    made_at = made_at or credit_record.made_at_of(budgets, reservation)
    remaining = int64.sub(remaining, credit_record.leave(budget, reserved, made_at, held, 0))
  end
  budget_figures.move_figures(budget, remaining, reserved)
  budget.crossings = threshold.crossings_of(marks, budget.allocated_figure, former, debt, remaining, debt, allocated)
  emits = emits or budget.crossings or budget.credit_effects
end
budget_figures.require_balanced(budgets)
journal.require_journal(tag)
if emits then
  event_writer.require_event_log(tag)
  redis.call('ZCARD', keys.credit_index(tag))
end

-- Nothing is refused below this line.
-- The index comes first: if it is damaged, the script ends here, before a figure has changed.
redis.call('ZREM', hold_record.deadline_index_key(tag, hold), reservation_id)
local parts = { hold.amount }
local reply = { 'RELEASED', 'fresh', hold.amount, hold.unit }
for _, budget in ipairs(budgets) do
  if budget.credit_effects then
    credit_turn.write_left(budget)
  end
  redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
  if budget.waiting then
    waking.wake_waiters(budget.key)
  end
  local text = budget_figures.balance_text(budget)
  reply[#reply + 1] = budget.scope
  reply[#reply + 1] = text
  parts[#parts + 1] = brief_figures.stored_balance_text(text)
end
if reason == '' then
  redis.call('HSET', reservation, field.state, 'RELEASED', field.ended_at, time.ms_text(now), field.ended_by, ended_by)
else
  redis.call('HSET', reservation, field.state, 'RELEASED', field.ended_at, time.ms_text(now), field.ended_by, ended_by,
    field.release_reason, reason)
end
owned_counts.count_ended(tag, hold.tenant, 1)
action_counters.uncount_run(tag, hold.tenant, hold[field.run_counters])
-- In this order, because Redis 7.0 reads its clock for each command: the record must exist as long as the replay does.
idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
ended_holds.end_uncharged(tag, reservation_id, settle.settled_retention(retention_ms, idempotency_ttl_ms), origin)
for _, budget in ipairs(emits and budgets or {}) do
  for _, effects in ipairs(budget.credit_effects or {}) do
    credit_turn.write_effects(tag, hold.tenant, hold.unit, budget.scope, origin, effects, now)
  end
  if budget.crossings then
    threshold.emit_crossings(tag, hold.tenant, origin, hold.unit, budget, budget.crossings)
  end
end
if by_operator then
  audit_log.append_audit(tag, 'releaseReservation', 200, hold.tenant, 'reservation', reservation_id, origin,
    { 'scope', hold.scopes[#hold.scopes], 'unit', hold.unit, 'amount', hold.amount, 'reason', reason })
end
return reply
