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
-- ARGV[7]   idempotency_ttl_ms
-- ARGV[8]   retention_ms     how long the ended record is kept for the audit trail
-- ARGV[9]   key_id           the requesting API key
-- ARGV[10]  request_id
-- ARGV[11]  trace            trace id and flags
-- RETURNS   COMMITTED answer:fresh|replay charged released unit overage_policy overage debt balances(scope balance)*
--           | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN | TENANT_CLOSED | RESERVATION_FINALIZED state
--           | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms] | QUARANTINED reason tenant? [again:again]
--           | UNIT_MISMATCH unit scope | BUDGET_FROZEN scope | BUDGET_CLOSED scope | BUDGET_EXCEEDED scope
--           | OVERDRAFT_LIMIT_EXCEEDED scope | INT64_OVERFLOW scope | RATE_LIMITED limit allowed:int retry_ms:int
--           | RECLAIMED now_ms outcomes(word detail? second_detail?)*
-- BOUND     scopes of one subject (at most 6) of each call; 100 due holds, if one reclaims; 1,000 tenants if a damaged record does not name its own
-- GROUP     16
-- ATTESTED  its outcome can become evidence
-- EMITS     reservation.commit_overage, budget.debt_incurred, budget.over_limit_entered, budget.exhausted, budget.threshold_crossed;
--           those of the expiry transition
-- @include  fields: FIELD
-- @include  keys: tag_of_key
-- @include  int64: i64_figure, i64_text, i64_sub, i64_less
-- @include  admission: short_budget
-- @include  idempotency: remember
-- @include  group: group_now, copies_of, keep_budget, keep_plain_move, remove_from_index, end_in_group, leave_group
-- @include  plain_move: moves_plainly
-- @include  settle: open_hold, held_budgets, settled_retention, earlier_settlement
-- @include  charge: charge_of, charge_emits, emit_charge
-- @include  append_event: append_event, require_event_log
-- @include  owned: LONG_VALUE
-- @include  record: POLICY_LETTERS
-- @include  hold: HOLD_POLICIES, constants_of_hold, awaits_cleanup, deadline_index_key
-- @include  expiry: quarantine, reclaimed
-- @include  threshold: marks_of
-- @include  governing_policy: governing_policy
-- @include  policy_rate: rate_refusal, count_rate
--
-- An expired hold never caps or refuses a charge, marks a scope or drives it into debt: if what goes beyond the estimate does not remain,
-- due holds are reclaimed first, and the caller runs the script again.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint = ARGV[1], ARGV[2], ARGV[3]
local unit, actual, metadata = ARGV[4], ARGV[5], ARGV[6]
local idempotency_ttl_ms, retention_ms, key_id = ARGV[7], ARGV[8], ARGV[9]
local origin = { actor = 'api_key', key = key_id, request = ARGV[10], trace = ARGV[11] }

local tag = tag_of_key(reservation)
local now = group_now(group)

local earlier = earlier_settlement(tag, reservation_id, idempotency, fingerprint, 'COMMITTED')
if earlier then
  return earlier
end

local hold, refusal = open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin, FIELD.constants)
if not hold then
  return refusal
end
if awaits_cleanup(hold, now) then
  return { 'RESERVATION_EXPIRED' }
end
local real_now = now
now = hold.now
if unit ~= hold.unit then
  return { 'UNIT_MISMATCH', hold.unit, hold.scopes[#hold.scopes] }
end
local budgets = held_budgets(group, tag, hold)
if not budgets then
  leave_group(group, tag)
  return quarantine(tag, reservation_id, reservation, 'MISSING_BUDGET', origin, hold.tenant, true)
end
for _, budget in ipairs(budgets) do
  if budget.status ~= 'ACTIVE' then
    return { budget.status == 'CLOSED' and 'BUDGET_CLOSED' or 'BUDGET_FROZEN', budget.scope }
  end
end
local policy = constants_of_hold(hold)
if not HOLD_POLICIES[policy] and i64_less(hold.amount, actual) then
  -- The requested policy is unknown. Up to the estimate, it does not matter.
  leave_group(group, tag)
  return quarantine(tag, reservation_id, reservation, 'INVALID_POLICY', origin, hold.tenant, true)
end
-- A damaged policy must not go into the reply.
policy = HOLD_POLICIES[policy] and policy or 'UNKNOWN'
local marks, estimate, cost = marks_of(hold.marks), i64_figure(hold.amount), i64_figure(actual)
local is_plain = type(estimate) == 'number' and type(cost) == 'number' and cost <= estimate
  and moves_plainly(budgets, marks, estimate - cost, -estimate, cost)
local charge, over
if is_plain then
  charge = { charged = actual, released = i64_text(estimate - cost), overage = '0', debt = '0' }
else
  if policy ~= 'REJECT' and i64_less(estimate, cost) and short_budget(budgets, i64_text(i64_sub(cost, estimate))) then
    local first = reclaimed(group, tag, hold.clock_ms and hold.tenant, now, retention_ms, origin)
    if first then
      return first
    end
  end
  budgets = copies_of(budgets)
  charge, over = charge_of(budgets, hold.amount, actual, policy, marks)
end
if not charge then
  return over
end
local governing = hold.has_commit_rates and governing_policy(tag, hold.tenant, hold.scopes, now)
local limited = rate_refusal(tag, governing, 'commits', real_now)
if limited then
  return limited
end
if charge.overage ~= '0' or not is_plain and charge_emits(budgets) then
  require_event_log(tag)
end

-- Nothing is refused below this line.
-- The index comes first: if it is damaged, the call ends here, before a figure has changed.
remove_from_index(group, deadline_index_key(tag, hold), reservation_id)
-- With room for three budgets, because a table that grows is reallocated each time.
local parts = { charge.charged, charge.released, POLICY_LETTERS[policy] or policy, charge.overage, charge.debt, nil, nil, nil }
local reply = { 'COMMITTED', 'fresh', charge.charged, charge.released, unit, policy, charge.overage, charge.debt, nil, nil, nil, nil, nil, nil }
local size, parts_size = 8, 5
for _, budget in ipairs(budgets) do
  local text, stored
  if is_plain then
    text, stored = keep_plain_move(group, budget, estimate - cost, -estimate, cost)
  else
    text, stored = keep_budget(group, budget)
  end
  reply[size + 1], reply[size + 2], parts[parts_size + 1] = budget.scope, text, stored
  size, parts_size = size + 2, parts_size + 1
end
local leaf = hold.scopes[#hold.scopes]
local entry = not is_plain and emit_charge(tag, hold.tenant, budgets, origin, unit, reservation_id, policy)
if charge.overage ~= '0' then
  entry = append_event(tag, 'reservation.commit_overage', hold.tenant, leaf, origin,
    { 'reservation_id', reservation_id, 'unit', unit, 'estimated_amount', hold.amount, 'actual_amount', actual,
      'overage', charge.overage, 'overage_policy', policy, 'debt_incurred', charge.debt })
end
local ended = { 'HSET', reservation, FIELD.state, 'COMMITTED', FIELD.ended_at, hold.now_text, FIELD.ended_by, key_id,
  FIELD.charged, charge.charged }
if metadata ~= '' then
  ended[#ended + 1] = FIELD.commit_metadata
  ended[#ended + 1] = metadata
end
if entry then
  ended[#ended + 1] = FIELD.end_event
  ended[#ended + 1] = entry
end
redis.call(unpack(ended))
count_rate(tag, governing, 'commits', real_now)
end_in_group(group, hold.tenant, reservation_id, #metadata > LONG_VALUE and #metadata or 0)
-- In this order, because Redis 7.0 reads its clock for each command: the record must exist as long as the replay does.
remember(idempotency, fingerprint, parts, idempotency_ttl_ms, hold.tenant, hold.clock_ms)
redis.call('PEXPIRE', reservation, settled_retention(retention_ms, idempotency_ttl_ms, hold.clock_ms))
return reply
