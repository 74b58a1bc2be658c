#!lua flags=allow-oom
-- commit: charge what a hold actually cost, and return the rest.
-- It carries allow-oom because a commit reduces what is held, and must work when Redis is full.
--
-- KEYS[1]   reservation      hash
-- KEYS[2]   idempotency      string, the record of this request
-- ARGV[1]   tenant_id        effective tenant
-- ARGV[2]   reservation_id
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   unit             of the actual amount
-- ARGV[5]   actual           int64 as a decimal string, not negative
-- ARGV[6]   metadata         JSON text, or empty
-- ARGV[7]   metrics          JSON text, or empty
-- ARGV[8]   idempotency_ttl_ms
-- ARGV[9]   retention_ms     how long the ended record is kept for the audit view
-- ARGV[10]  key_id           the requesting API key
-- ARGV[11]  request_id
-- ARGV[12]  trace            trace id and flags
-- RETURNS   COMMITTED answer:fresh|replay charged released unit overage_policy overage debt balances(scope balance)*
--           | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state
--           | RESERVATION_EXPIRED [on_access:now|charged tenant deadline_ms now_ms]
--           | QUARANTINED reason tenant? [again:again] | UNIT_MISMATCH unit scope | BUDGET_FROZEN scope
--           | BUDGET_CLOSED scope | BUDGET_EXCEEDED scope | OVERDRAFT_LIMIT_EXCEEDED scope | INT64_OVERFLOW scope
--           | RATE_LIMITED limit allowed:int retry_ms:int | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     scopes of one subject (at most 6) of each call; 100 due holds, if one reclaims; 1,000 tenants if a damaged
--           record does not name its own
-- GROUP     16
-- ATTESTED  its outcome can become evidence
-- EMITS     reservation.commit_overage, budget.debt_incurred, budget.over_limit_entered, budget.exhausted,
--           budget.threshold_crossed; those of the expiry transition
-- @include  charging, credit_record, event_writer, expiry, field, funds, grouped, hold_form, hold_record,
--           idempotency_record,
--           int64, journal, keys, owned_counts, plain_move, policy_rate, policy_search, run_time, settle,
--           shared_budgets, threshold
--
-- An expired hold never caps or refuses a charge, marks a scope or drives it into debt: if what goes beyond the
-- estimate does not remain, due holds are reclaimed first, and the caller runs the script again.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint = ARGV[1], ARGV[2], ARGV[3]
local unit, actual, metadata, metrics = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local idempotency_ttl_ms, retention_ms, key_id = ARGV[8], ARGV[9], ARGV[10]
local origin = { actor = 'api_key', key = key_id, request = ARGV[11], trace = ARGV[12] }

local tag = keys.tag_of(reservation)
local now = run_time.now(group)

local earlier = settle.earlier_settlement(tag, reservation_id, idempotency, fingerprint, 'COMMITTED')
if earlier then
  return earlier
end

local hold, refusal =
  settle.open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin, field.constants)
if not hold then
  return refusal
end
if hold_record.awaits_cleanup(hold, now) then
  return { 'RESERVATION_EXPIRED' }
end
if unit ~= hold.unit then
  return { 'UNIT_MISMATCH', hold.unit, hold.scopes[#hold.scopes] }
end
local budgets = settle.held_budgets(group, tag, hold)
if not budgets then
  grouped.leave(group, tag)
  return expiry.quarantine(tag, reservation_id, reservation, 'MISSING_BUDGET', origin, hold.tenant, true)
end
for _, budget in ipairs(budgets) do
  if budget.status ~= 'ACTIVE' then
    return { budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN', budget.scope }
  end
end
local policy = hold_record.constants_of_hold(hold)
if not hold_record.HOLD_POLICIES[policy] and int64.less(hold.amount, actual) then
  -- The requested policy is unknown. Up to the estimate, it does not matter.
  grouped.leave(group, tag)
  return expiry.quarantine(tag, reservation_id, reservation, 'INVALID_POLICY', origin, hold.tenant, true)
end
-- A damaged policy must not go into the reply.
policy = hold_record.HOLD_POLICIES[policy] and policy or 'UNKNOWN'
local marks, estimate, cost = threshold.marks_of(hold.marks, hold.unit), int64.figure(hold.amount), int64.figure(actual)
local is_plain = type(estimate) == 'number' and type(cost) == 'number' and cost <= estimate
  and plain_move.moves_plainly(budgets, marks, estimate - cost, -estimate, cost)
local charge, over
if is_plain then
  charge = { charged = actual, released = int64.text(estimate - cost), overage = '0', debt = '0' }
else
  if policy ~= 'REJECT' and int64.less(estimate, cost)
    and funds.short_budget(budgets, int64.text(int64.sub(cost, estimate))) then
    local first = expiry.reclaimed(group, tag, now, retention_ms, origin)
    if first then
      return first
    end
  end
  budgets = shared_budgets.copies_of(budgets)
  charge, over = charging.charge_of(budgets, hold.amount, actual, policy, marks,
    credit_record.made_at_of(budgets, reservation))
end
if not charge then
  return over
end
local governing = hold.has_commit_rates and policy_search.governing_policy(tag, hold.tenant, hold.scopes, now)
local limited = policy_rate.rate_refusal(tag, governing, 'commits', now)
if limited then
  return limited
end
journal.require_journal(tag, group)
if charge.overage ~= '0' or not is_plain and charging.charge_emits(budgets) then
  event_writer.require_event_log(tag)
  redis.call('ZCARD', keys.credit_index(tag))
end

-- Nothing is refused below this line.
-- The index comes first: if it is damaged, the call ends here, before a figure has changed.
grouped.remove_from_index(group, hold_record.deadline_index_key(tag, hold), reservation_id)
-- With room for three budgets, because a table that grows is reallocated each time.
local parts = { charge.charged, charge.released, hold_form.POLICY_LETTERS[policy] or policy, charge.overage,
  charge.debt, nil, nil, nil }
local reply = { 'COMMITTED', 'fresh', charge.charged, charge.released, unit, policy, charge.overage, charge.debt, nil,
  nil, nil, nil, nil, nil }
local size, parts_size = 8, 5
for _, budget in ipairs(budgets) do
  local text, stored
  if is_plain then
    text, stored = shared_budgets.keep_plain_move(group, budget, estimate - cost, -estimate, cost)
  else
    text, stored = shared_budgets.keep_copy(group, budget)
  end
  reply[size + 1], reply[size + 2], parts[parts_size + 1] = budget.scope, text, stored
  size, parts_size = size + 2, parts_size + 1
end
local leaf = hold.scopes[#hold.scopes]
local entry = not is_plain
  and charging.emit_charge(tag, hold.tenant, budgets, origin, unit, reservation_id, policy, now)
if charge.overage ~= '0' then
  entry = event_writer.append_event(tag, 'reservation.commit_overage', hold.tenant, leaf, origin,
    { 'reservation_id', reservation_id, 'unit', unit, 'estimated_amount', hold.amount, 'actual_amount', actual,
      'overage', charge.overage, 'overage_policy', policy, 'debt_incurred', charge.debt })
end
local ended = { 'HSET', reservation, field.state, 'COMMITTED', field.ended_at, run_time.now_text(group),
  field.ended_by, key_id, field.charged, charge.charged }
if metadata ~= '' then
  ended[#ended + 1] = field.commit_metadata
  ended[#ended + 1] = metadata
end
if metrics ~= '' then
  ended[#ended + 1] = field.commit_metrics
  ended[#ended + 1] = metrics
end
local paid = is_plain and '' or credit_record.paid_text(budgets)
if paid ~= '' then
  ended[#ended + 1] = field.credits
  ended[#ended + 1] = paid
end
if entry then
  ended[#ended + 1] = field.end_event
  ended[#ended + 1] = entry
end
redis.call(unpack(ended))
policy_rate.count_rate(tag, governing, 'commits', now)
journal.append_commit(tag, reservation_id, charge, actual, metrics, origin)
grouped.end_in_group(group, hold.tenant, reservation_id, owned_counts.long_text({ metadata, metrics }, 1))
-- In this order, because Redis 7.0 reads its clock for each command: the record must exist as long as the replay does.
idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)
redis.call('PEXPIRE', reservation, settle.settled_retention(retention_ms, idempotency_ttl_ms))
return reply
