#!lua flags=allow-oom
-- refund: take back what a reservation or a direct debit was charged, wholly or in part. Neither debt nor a frozen
-- budget prevents this: money that comes back must not be lost.
-- It carries allow-oom because it lowers what is spent, and must work when Redis is full.
--
-- KEYS[1]   idempotency      string, the record of this request
-- ARGV[1]   tenant_id        effective tenant, or empty for an operator, who may refund any charge
-- ARGV[2]   charge_id        of the reservation or the direct debit
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   unit
-- ARGV[5]   amount           int64 as a decimal string, positive
-- ARGV[6]   reason           free text, or empty
-- ARGV[7]   metadata         JSON text, or empty; reason and metadata go into the event
-- ARGV[8]   idempotency_ttl_ms
-- ARGV[9]   retention_ms     how long the record of the reservation is kept after the refund
-- ARGV[10]  key_id           the requesting API key, or the operator; empty for the admin key
-- ARGV[11]  request_id
-- ARGV[12]  trace            trace id and flags, then the sender: see lib/audit_log
-- RETURNS   REFUNDED answer:fresh|replay tenant total scopes(scope balance returned)* | IDEMPOTENCY_MISMATCH
--           | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED
--           | RESERVATION_FINALIZED state | RESERVATION_EXPIRED [on_access:now|charged tenant deadline_ms now_ms]
--           | QUARANTINED reason tenant? [again:again] | UNIT_MISMATCH unit scope
--           | REFUND_EXCEEDED state charged refunded
-- BOUND     scopes of one subject (at most 6); 2,000 events, to find a debit; 1,000 tenants if a damaged record does
--           not name its own
-- EMITS     custom.reservation.refunded, custom.direct_debit.refunded, budget.over_limit_exited,
--           budget.threshold_crossed; those of a rollover; those of the expiry transition
-- @include  audit_log, brief_figures, budget_figures, debit_record, event_writer, field, grouped, hold_record,
--           idempotency_record, int64, journal, keys, new_figures, refunding, run_time, settle, shared_budgets,
--           tenant_state, time
--
-- If the hold was overdue, it expires, and the caller runs the script again. RESERVATION_FINALIZED, and
-- RESERVATION_EXPIRED alone, are about a record whose state is damaged.
local idempotency = KEYS[1]
local tenant_id, charge_id, fingerprint, unit, amount = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local reason, metadata, idempotency_ttl_ms, retention_ms, key_id = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local by_operator, is_debit = tenant_id == '', string.sub(charge_id, 1, 4) == 'evn_'
local refunded_by = by_operator and key_id == '' and 'admin' or key_id
local origin = { actor = by_operator and 'admin_on_behalf_of' or 'api_key', key = key_id, request = ARGV[11],
  trace = ARGV[12], correlation = nil }

local tag = keys.tag_of(idempotency)
local group = grouped.new()
local now = run_time.now(group)

local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  local reply = { 'REFUNDED', 'replay', unpack(earlier) }
  for i = 6, #reply, 3 do
    reply[i] = brief_figures.full_balance(reply[i])
  end
  return reply
end

-- What was charged, or nil and a refusal.
local function charge_of_reservation()
  local hold, refusal = settle.open_hold(group, tag, charge_id, tenant_id, now, retention_ms, origin)
  if hold then
    return { state = 'ACTIVE', tenant = hold.tenant, unit = hold.unit, subject = hold.subject, charged = '0',
      refunded = '0' }
  end
  -- Whether it ended earlier, and not in this run.
  local has_ended = string.find(refusal[1], '_FINALIZED$') or refusal[1] == 'RESERVATION_EXPIRED' and not refusal[2]
  if not has_ended then
    return nil, refusal
  end
  hold = hold_record.load_hold(keys.reservation(tag, charge_id), field.charged, field.charge_on_expiry,
    field.refunded, field.ended_at, field.commit_metrics, field.credits)
  if not hold_record.HOLD_STATES[hold.state] then
    return nil, refusal
  end
  hold.charged, hold.refunded = journal.charge_of_end(hold.state, hold) or '', hold[field.refunded] or '0'
  hold.credits = hold[field.credits]
  hold.charged_at, hold.metrics = hold_record.whole_number(hold[field.ended_at]), hold[field.commit_metrics]
  return hold
end

local function charge_of_debit()
  local debit = debit_record.find(tag, charge_id)
  if not debit then
    return nil, { 'NOT_FOUND' }
  elseif tenant_id ~= '' and debit.tenant ~= tenant_id then
    return nil, { 'FORBIDDEN' }
  elseif grouped.tenant(group, tenant_state.tenant_status, keys.tenant(tag, debit.tenant)) == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  debit.refunded = debit_record.refunded_of(tag, charge_id)
  return debit
end

local charge, refusal
if is_debit then
  charge, refusal = charge_of_debit()
else
  charge, refusal = charge_of_reservation()
end
if not charge then
  return refusal
end
local scopes = charge.subject.scopes
if unit ~= charge.unit and charge.unit then
  return { 'UNIT_MISMATCH', charge.unit, scopes[#scopes] }
elseif not (int64.is_amount(charge.charged) and int64.is_amount(charge.refunded)) then
  return { 'NOT_FOUND', 'INVALID_CHARGE' }
elseif int64.less(int64.sub(charge.charged, charge.refunded), amount) then
  return { 'REFUND_EXCEEDED', charge.state, charge.charged, charge.refunded }
elseif charge.subject.defect or not charge.charged_at then
  return { 'NOT_FOUND', charge.subject.defect or 'INVALID_END' }
end

local found = {}
for _, scope in ipairs(charge.subject.held) do
  found[#found + 1] = shared_budgets.budget(group, tag, unit, scope)
end
local former, budgets = shared_budgets.copies_of(found), shared_budgets.copies_of(found)
local given = {}
for i, budget in ipairs(budgets) do
  given[i] = refunding.take_out(budget, amount, charge, i)
end
budget_figures.require_balanced(budgets)
journal.require_journal(tag)
event_writer.require_event_log(tag)
redis.call('ZCARD', keys.credit_index(tag))
redis.call('XLEN', keys.correlated_events(tag, charge_id))
if by_operator then
  audit_log.require_audit_log(tag)
end

-- Nothing is refused below this line.
local total = int64.text(int64.add(charge.refunded, amount))
local reply, parts = { 'REFUNDED', 'fresh', charge.tenant, total }, { charge.tenant, total }
for i, budget in ipairs(budgets) do
  local text, stored = shared_budgets.keep_copy(group, budget)
  if budget.paid_by_credits then
    redis.call('HSET', budget.key, 'paid_by_credits', budget.paid_by_credits)
  end
  for place, value in ipairs({ budget.scope, text, budget.returned }) do
    reply[1 + 3 * i + place], parts[3 * i - 1 + place] = value, place == 2 and stored or value
  end
end
grouped.write(group, tag)
for i, budget in ipairs(budgets) do
  new_figures.emit_new_figures(tag, charge.tenant, origin, unit, former[i], budget)
end
local figures = { 'unit', unit, 'refunded', amount, 'refunded_total', total, 'charged', charge.charged, 'reason',
  reason, 'metadata', metadata, is_debit and 'event_id' or 'reservation_id', charge_id }
local details = { 'scope', scopes[#scopes], 'unit', unit, 'amount', amount, 'reason', reason }
origin.correlation = is_debit and charge_id or nil
if is_debit then
  event_writer.append_event(tag, 'custom.direct_debit.refunded', charge.tenant, scopes[#scopes], origin, figures)
else
  redis.call('HSET', charge.key, field.refunded, total)
  redis.call('PEXPIRE', charge.key, settle.settled_retention(retention_ms, idempotency_ttl_ms), 'GT')
  event_writer.append_event(tag, 'custom.reservation.refunded', charge.tenant, scopes[#scopes], origin, figures)
end
journal.append_refund(tag, charge.entry or charge_id, is_debit, amount, total,
  { field.ended_at, time.ms_text(now), field.ended_by, refunded_by, field.release_reason, reason, field.commit_metrics,
    charge.metrics or '', field.credits, string.find(table.concat(given), '.') and table.concat(given, '|') or '' },
  origin)
if by_operator and is_debit then
  audit_log.append_audit(tag, 'refundEvent', 200, charge.tenant, 'event', charge_id, origin, details)
elseif by_operator then
  audit_log.append_audit(tag, 'refundReservation', 200, charge.tenant, 'reservation', charge_id, origin, details)
end
idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
return reply
