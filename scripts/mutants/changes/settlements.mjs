/** Of what else settles or charges, and of replays. @type {import('../list.mjs').Mutations} */
export const SETTLEMENTS = {
  'ledger/release.lua': [
    {
      what: 'the amount stays reserved',
      find: 'int64.add(former, held), int64.sub(budget.reserved_figure, held)',
      put: 'former, budget.reserved_figure',
    },
    {
      what: 'the hold stays in the deadline index',
      find: "redis.call('ZREM', hold_record.deadline_index_key(tag, hold), reservation_id)",
      put: '',
    },
    { what: 'a release counts as live', find: 'owned_counts.count_ended(tag, hold.tenant, 1)', put: '' },
    {
      what: 'the outcome is not remembered',
      find: 'idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)\nended_holds.end_uncharged',
      put: 'ended_holds.end_uncharged',
    },
    {
      what: 'the release of an operator has no audit row',
      find: "if by_operator then\n  audit_log.append_audit(tag, 'releaseReservation', 200, hold.tenant",
      put: "if false then\n  audit_log.append_audit(tag, 'releaseReservation', 200, hold.tenant",
    },
    {
      what: 'the count of the run stays',
      find: 'action_counters.uncount_run(tag, hold.tenant, hold[field.run_counters])',
      put: '',
    },
  ],
  'ledger/extend.lua': [
    {
      what: 'a lease can be extended in its grace',
      find: 'if now > hold.expires_at then',
      put: 'if now > hold.expires_at + hold.grace_ms then',
    },
    {
      what: 'a lease cannot be extended in its last millisecond',
      find: 'if now > hold.expires_at then',
      put: 'if now >= hold.expires_at then',
    },
    {
      what: 'one extension more is allowed',
      find: 'if extensions >= max_extensions then',
      put: 'if extensions > max_extensions then',
    },
    {
      what: 'the maximum of the policy does not apply',
      find: '  extend_by_ms = math.min(extend_by_ms, max_ttl_ms)',
      put: '',
    },
    {
      what: 'the maximum of the tenant does not apply',
      find: 'tenant and math.min(extend_by_ms, tenant.max_ttl_ms) or extend_by_ms',
      put: 'extend_by_ms',
    },
    {
      what: 'the deadline index keeps the old deadline',
      find: "redis.call('ZADD', hold_record.deadline_index_key(tag, hold), time.ms_text(expires_at + hold.grace_ms), reservation_id)",
      put: '',
    },
    {
      what: 'the deadline index leaves out the grace',
      find: "redis.call('ZADD', hold_record.deadline_index_key(tag, hold), time.ms_text(expires_at + hold.grace_ms), reservation_id)",
      put: "redis.call('ZADD', hold_record.deadline_index_key(tag, hold), time.ms_text(expires_at), reservation_id)",
    },
    {
      what: 'a retry of the reserve makes a second hold',
      find: '  idempotency_record.outlast(record, lifetime_ms)\n',
      put: '',
    },
    {
      what: 'the extension is added to the present instead of the expiry',
      find: 'local expires_at = hold.expires_at + extend_by_ms',
      put: 'local expires_at = now + extend_by_ms',
    },
  ],
  'ledger/direct_debit.lua': [
    {
      what: 'the debit has no event',
      find: "event_writer.append_event(tag, 'custom.direct_debit.applied'",
      put: "(function() return '0-0' end)(tag, 'custom.direct_debit.applied'",
    },
    {
      what: 'the charge is not written',
      find: 'text, stored = shared_budgets.keep_plain_move(group, budget, -cost, 0, cost)',
      put: 'text, stored = budget.head .. budget.tail, budget.head',
    },
  ],
  'ledger/lib/settle.lua': [
    {
      what: 'a tenant settles the hold of another',
      find: "  if owner ~= '' and tenant ~= owner then",
      put: '  if false then',
    },
    {
      what: 'holds of a closed tenant can be settled',
      find: "  if status == 'CLOSED' then",
      put: '  if false then',
    },
    {
      what: 'an expired hold is settled again',
      find: "  if state == 'EXPIRED' then",
      put: '  if false then',
    },
    {
      what: 'a settled hold is settled again',
      find: "  if state == 'COMMITTED' or state == 'RELEASED' then",
      put: '  if false then',
    },
    {
      what: 'an overdue hold is settled',
      find: '  if hold_record.is_overdue(hold, now) then\n    grouped.leave(group, tag)',
      put: '  if false then\n    grouped.leave(group, tag)',
    },
    {
      what: 'a settled record goes before its replay',
      find: 'tonumber(retention_ms) >= tonumber(idempotency_ttl_ms) and retention_ms or idempotency_ttl_ms',
      put: 'retention_ms',
    },
  ],
  'lib/idempotency_record.lua': [
    {
      what: 'any payload is replayed',
      find: '  if parts[1] ~= fingerprint and not same_payload(parts[1], fingerprint) then',
      put: '  if false then',
    },
    {
      what: 'a damaged record is a replay of nothing',
      find: '  if #parts < 2 then',
      put: '  if #parts < 1 then',
    },
    {
      what: 'a record never expires',
      find: ", 'PX', ttl_ms)",
      put: ')',
    },
  ],
};
