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
-- ARGV[6]   retention_ms     how long the ended record is kept for the audit trail
-- ARGV[7]   key_id           the requesting API key, or empty
-- ARGV[8]   request_id
-- ARGV[9]   trace            trace id and flags, then the sender: see lib/append_audit
-- RETURNS   RELEASED answer:fresh|replay released unit balances(scope balance)* | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect]
--           | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state
--           | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms] | QUARANTINED reason tenant? [again:again]
-- BOUND     scopes of one subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- ATTESTED  its outcome can become evidence
-- EMITS     budget.threshold_crossed, custom.reservation.quarantine_decided; those of the expiry transition
-- @include  fields: FIELD
-- @include  keys: tag_of_key, quarantine_key
-- @include  now_ms: ms_text
-- @include  int64: i64_figure, i64_add, i64_sub, i64_negative
-- @include  idempotency: remember
-- @include  group: new_group, group_now, copies_of
-- @include  settle: open_hold, held_budgets, settled_retention, earlier_settlement
-- @include  budget: require_balanced, move_figures, balance_text
-- @include  brief_figures: stored_balance_text
-- @include  threshold: marks_of, crossings_of, emit_crossings
-- @include  append_audit: append_audit, require_audit_log
-- @include  append_event: append_event, require_event_log
-- @include  release_damaged: release_damaged, decision_figures
-- @include  owned: count_ended
-- @include  action_counters: uncount_run
-- @include  hold: deadline_index_key
-- @include  expiry: quarantine
-- @include  ended: keep_ended
-- @include  damage: owner_of
-- @include  wake_waiters: wake_waiters
--
-- An operator's release is written to the audit log in the same run. A hold with a damaged record returns what it can, and its record
-- is valid afterwards. If only the budgets do not match, an operator alone may write off what they cannot take back.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idempotency_ttl_ms, retention_ms, key_id = ARGV[5], ARGV[6], ARGV[7]
local by_operator = tenant_id == ''
local origin = { actor = by_operator and 'admin_on_behalf_of' or 'api_key', key = key_id, request = ARGV[8], trace = ARGV[9] }

local tag = tag_of_key(reservation)
local group = new_group()
local now = group_now(group)

local earlier = earlier_settlement(tag, reservation_id, idempotency, fingerprint, 'RELEASED')
if earlier then
  return earlier
end
if by_operator then
  require_audit_log(tag)
end

local hold, refusal, damaged, owner, created_at = open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin, FIELD.run_counters)
local budgets
if hold then
  now = hold.now
  local sound, found = pcall(held_budgets, group, tag, hold)
  if not sound and (not by_operator or redis.call('HEXISTS', quarantine_key(tag), reservation_id) == 0) then
    error(found, 0)
  elseif sound and found then
    budgets = copies_of(found)
  else
    owner, created_at = owner_of(tag, reservation_id, hold.tenant)
    damaged, refusal = hold, quarantine(tag, reservation_id, reservation, sound and 'MISSING_BUDGET' or 'INVALID_BUDGET', origin, owner, true)
  end
end
if not hold and not damaged or damaged and not by_operator and not damaged.defect then
  return refusal
end
-- Returns what can be returned of a hold in quarantine.
local function release_from_quarantine()
  local refunded, _, known = release_damaged(tag, reservation_id, damaged, owner, created_at, by_operator and 'admin' or key_id, reason, damaged.now,
    settled_retention(retention_ms, idempotency_ttl_ms, damaged.clock_ms), origin)
  local amount = #refunded > 0 and damaged.amount or '0'
  local reply, parts = { 'RELEASED', 'fresh', amount, known[FIELD.unit] }, { amount }
  for _, budget in ipairs(refunded) do
    local text = balance_text(budget)
    reply[#reply + 1] = budget.scope
    reply[#reply + 1] = text
    parts[#parts + 1] = stored_balance_text(text)
  end
  local quarantine_reason = refusal[2]
  append_event(tag, 'custom.reservation.quarantine_decided', known[FIELD.tenant], nil, origin,
    decision_figures(reservation_id, 'release', 'RELEASED', quarantine_reason, reason, #refunded > 0 and amount or ''))
  if by_operator then
    append_audit(tag, 'releaseReservation', 200, known[FIELD.tenant], 'reservation', reservation_id, origin,
      { 'scope', refunded[#refunded] and refunded[#refunded].scope or '', 'unit', known[FIELD.unit], 'amount', amount, 'reason', reason,
        'quarantine_reason', quarantine_reason })
  end
  remember(idempotency, fingerprint, parts, idempotency_ttl_ms, known[FIELD.tenant], damaged.clock_ms)
  return reply
end
if damaged then
  return release_from_quarantine()
end

local held, marks, emits = i64_figure(hold.amount), marks_of(hold.marks), false
for _, budget in ipairs(budgets) do
  local former, debt = budget.remaining_figure, budget.debt_figure
  local remaining, reserved = i64_add(former, held), i64_sub(budget.reserved_figure, held)
  if not remaining or not reserved or i64_negative(reserved) then
    error('budget ' .. budget.key .. ' holds less than the reservation that leaves it')
  end
  move_figures(budget, remaining, reserved)
  budget.crossings = crossings_of(marks, budget.allocated_figure, former, debt, remaining, debt)
  emits = emits or budget.crossings
end
require_balanced(budgets)
if emits then
  require_event_log(tag)
end

-- Nothing is refused below this line.
-- The index comes first: if it is damaged, the script ends here, before a figure has changed.
redis.call('ZREM', deadline_index_key(tag, hold), reservation_id)
local parts = { hold.amount }
local reply = { 'RELEASED', 'fresh', hold.amount, hold.unit }
for _, budget in ipairs(budgets) do
  redis.call('HSET', budget.key, 'remaining', budget.remaining, 'reserved', budget.reserved)
  if budget.waiting then
    wake_waiters(budget.key)
  end
  local text = balance_text(budget)
  reply[#reply + 1] = budget.scope
  reply[#reply + 1] = text
  parts[#parts + 1] = stored_balance_text(text)
end
local ended_by = by_operator and 'admin' or key_id
if reason == '' then
  redis.call('HSET', reservation, FIELD.state, 'RELEASED', FIELD.ended_at, ms_text(now), FIELD.ended_by, ended_by)
else
  redis.call('HSET', reservation, FIELD.state, 'RELEASED', FIELD.ended_at, ms_text(now), FIELD.ended_by, ended_by,
    FIELD.release_reason, reason)
end
count_ended(tag, hold.tenant, 1)
uncount_run(tag, hold.tenant, hold[FIELD.run_counters])
-- In this order, because Redis 7.0 reads its clock for each command: the record must exist as long as the replay does.
remember(idempotency, fingerprint, parts, idempotency_ttl_ms, hold.tenant, hold.clock_ms)
keep_ended(tag, reservation_id, settled_retention(retention_ms, idempotency_ttl_ms, hold.clock_ms))
for _, budget in ipairs(emits and budgets or {}) do
  if budget.crossings then
    emit_crossings(tag, hold.tenant, origin, hold.unit, budget, budget.crossings)
  end
end
if by_operator then
  append_audit(tag, 'releaseReservation', 200, hold.tenant, 'reservation', reservation_id, origin,
    { 'scope', hold.scopes[#hold.scopes], 'unit', hold.unit, 'amount', hold.amount, 'reason', reason })
end
return reply
