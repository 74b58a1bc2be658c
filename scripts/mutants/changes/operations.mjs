/** Of reserve and commit. @type {import('../list.mjs').Mutations} */
export const OPERATIONS = {
  'ledger/reserve.lua': [
    {
      what: 'another payload under a used key is replayed',
      find: "if earlier == 'MISMATCH' or",
      put: "if earlier == 'NEVER' or",
    },
    {
      what: 'a lease is not cut to the maximum of the tenant',
      find: '  ttl_ms = math.min(ttl_ms, tenant.max_ttl_ms)',
      put: '',
    },
    {
      what: 'a lease is not cut to the maximum of the policy',
      find: '  ttl_ms = math.min(ttl_ms, policy.max_ttl_ms)',
      put: '',
    },
    {
      what: 'the deadline index leaves out the grace',
      find: 'time.ms_text(expires_at + terms.grace_ms), reservation_id)',
      put: 'time.ms_text(expires_at), reservation_id)',
    },
    {
      what: 'the hold is not in the deadline index',
      find: 'grouped.add_to_index(group, hold_record.deadline_index_of(',
      put: 'local _ = (function() end)(group, hold_record.deadline_index_of(',
    },
    {
      what: 'the hold is not in the list of its tenant',
      find: 'grouped.add_to_index(group, keys.reservation_index(',
      put: 'local _ = (function() end)(group, keys.reservation_index(',
    },
    {
      what: 'the lease is a millisecond longer',
      find: 'local expires_at = now + ttl_ms',
      put: 'local expires_at = now + ttl_ms + 1',
    },
    {
      what: 'the live reservations are not counted',
      find: '\nowned_counts.count_live(owned, text_bytes, stored_after)',
      put: '',
    },
    {
      what: 'no event tells of an exhausted budget',
      find: "  if budget.became_exhausted then\n    event_writer.append_event(tag, 'budget.exhausted'",
      put: "  if false then\n    event_writer.append_event(tag, 'budget.exhausted'",
    },
    {
      what: 'the replay ends before the reservation can',
      find: 'lives_ms > tonumber(limits.idempotency_ttl_ms) and time.ms_text(lives_ms) or limits.idempotency_ttl_ms',
      put: 'limits.idempotency_ttl_ms',
    },
    {
      what: 'a reserve in observe mode holds',
      find: 'dry_run = dry_run or is_observed',
      put: '',
    },
    {
      what: 'a dry run holds',
      find: 'if dry_run then\n  local answer',
      put: 'if false then\n  local answer',
    },
  ],
  'ledger/commit.lua': [
    {
      what: 'another payload under a used key is replayed',
      find: "local earlier = settle.earlier_settlement(tag, reservation_id, idempotency, fingerprint, 'COMMITTED')",
      put: "local earlier = settle.earlier_settlement(tag, reservation_id, idempotency, redis.call('GET', idempotency) and cmsgpack.unpack(redis.call('GET', idempotency)) or fingerprint, 'COMMITTED')",
    },
    {
      what: 'a hold that waits for a cleanup can be committed',
      find: 'if hold_record.awaits_cleanup(hold, now) then',
      put: 'if false then',
    },
    { what: 'another unit is charged', find: 'if unit ~= hold.unit then', put: 'if false then' },
    {
      what: 'a frozen or closed budget is charged',
      find: "  if budget.status ~= 'ACTIVE' then",
      put: '  if false then',
    },
    {
      what: 'an unknown overage policy is taken for one',
      find: 'if not hold_record.HOLD_POLICIES[policy] and int64.less(hold.amount, actual) then',
      put: 'if false then',
    },
    {
      what: 'the hold stays in the deadline index',
      find: 'grouped.remove_from_index(group, hold_record.deadline_index_key(tag, hold), reservation_id)',
      put: '',
    },
    {
      what: 'a commit counts as live',
      find: 'grouped.end_in_group(group, hold.tenant, reservation_id, owned_counts.long_text({ metadata, metrics }, 1))',
      put: '',
    },
    {
      what: 'commits are not counted for the rate of the policy',
      find: "policy_rate.count_rate(tag, governing, 'commits', now)",
      put: '',
    },
    {
      what: 'the outcome is not remembered',
      find: 'idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)',
      put: '',
    },
    {
      what: 'the record never expires',
      find: "redis.call('PEXPIRE', reservation, settle.settled_retention(retention_ms, idempotency_ttl_ms))",
      put: '',
    },
    {
      what: 'an overage has no event',
      find: "if charge.overage ~= '0' then\n  entry",
      put: 'if false then\n  entry',
    },
    {
      what: 'the plain way returns nothing of the estimate',
      find: 'shared_budgets.keep_plain_move(group, budget, estimate - cost, -estimate, cost)',
      put: 'shared_budgets.keep_plain_move(group, budget, 0, -estimate, estimate)',
    },
  ],
};
