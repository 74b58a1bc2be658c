/** Of deadlines, expiry and refunds. @type {import('../list.mjs').Mutations} */
export const EXPIRY = {
  'lib/hold_record.lua': {
    tests: ['expire', 'deadlines', 'expiry-policies', 'hold-record', 'extend'],
    mutations: [
      {
        what: 'a hold expires at its deadline instead of after it',
        find: 'now > reclaim_deadline(hold)',
        put: 'now >= reclaim_deadline(hold)',
      },
      {
        what: 'a hold expires without its grace',
        find: '  return hold.expires_at + hold.grace_ms',
        put: '  return hold.expires_at',
      },
      {
        what: 'MANUAL_CLEANUP expires by itself',
        find: "  return is_past_grace(hold, now) and hold.expiry_letter ~= 'm'",
        put: '  return is_past_grace(hold, now)',
      },
      {
        what: 'a hold under MANUAL_CLEANUP stands in the index of the sweeper',
        find: "return letter == 'm' and keys.cleanup_index(tag) or keys.ttl_index(tag)",
        put: 'return keys.ttl_index(tag)',
      },
      {
        what: 'a negative amount is a valid one',
        find: '  if not int64.is_amount(hold.amount) or not hold.unit then',
        put: '  if not hold.unit then',
      },
      {
        what: 'the mask of a subject may be of another length',
        find: "#subject.scopes ~= #mask or not string.find(mask, '^[01]*1[01]*$')",
        put: "not string.find(mask, '^[01]*1[01]*$')",
      },
    ],
  },
  'lib/expiry.lua': {
    tests: ['expire', 'sweep', 'expiry-policies', 'live-count', 'deadlines'],
    mutations: [
      {
        what: 'the budgets get nothing back',
        find: '  refund.write_refunds(refunds)',
        put: '',
      },
      {
        what: 'the hold stays in the index',
        find: "  redis.call('ZREM', hold_record.deadline_index_key(tag, refunds.holds[1]), unpack(ids))",
        put: '',
      },
      {
        what: 'the record never expires',
        find: "    redis.call('PEXPIRE', hold.key, retention_ms)",
        put: '',
      },
      {
        what: 'an expired hold counts as live',
        find: '    owned_counts.count_ended(tag, tenant, count)',
        put: '',
      },
      {
        what: 'the count of the run stays',
        find: '    action_counters.uncount_run(tag, hold.tenant, hold[field.run_counters])',
        put: '',
      },
      {
        what: 'a hold named twice is refunded twice',
        find: '    if refunds.taken[reservation_id] then',
        put: '    if false then',
      },
      {
        what: 'an entry without a record stays in the index',
        find: "    if not hold then\n      redis.call('ZREM', index, reservation_id)",
        put: '    if not hold then',
      },
      {
        what: 'an ended hold stays in the index',
        find: "    if hold.state ~= 'ACTIVE' and hold_record.HOLD_STATES[hold.state] then\n      redis.call('ZREM', index, reservation_id)",
        put: "    if hold.state ~= 'ACTIVE' and hold_record.HOLD_STATES[hold.state] then",
      },
      {
        what: 'a wrong score in the index is not corrected',
        find: '      put_in_place(tag, index, reservation_id, hold, deadline)',
        put: '',
      },
      {
        what: 'a hold that cannot be settled is not quarantined',
        find: "  redis.call('HSET', keys.quarantine(tag), reservation_id, reason .. ' ' .. now_text)",
        put: '',
      },
      {
        what: 'a quarantine is reported again',
        find: "  if earlier and string.match(earlier, '^%S+') == reason then",
        put: '  if false then',
      },
      {
        what: 'reclaiming takes what is due only now',
        find: "'-inf', '(' .. time.ms_text(now), 'LIMIT', 0, RECLAIM_LIMIT)",
        put: "'-inf', time.ms_text(now), 'LIMIT', 0, RECLAIM_LIMIT)",
      },
    ],
  },
  'lib/refund.lua': {
    tests: ['expire', 'sweep', 'budget-balance', 'threshold'],
    mutations: [
      {
        what: 'more than is reserved can be returned',
        find: 'return reserved >= amount and remaining + amount, reserved - amount',
        put: 'return remaining + amount, reserved - amount',
      },
      {
        what: 'a missing budget stops nothing',
        find: "    budget.defect = 'MISSING_BUDGET'",
        put: '    budget.remaining, budget.reserved = 0, 0',
      },
      {
        what: 'only the first of several holds is refunded',
        find: '  refunds.holds[#refunds.holds + 1] = hold\n  return nil',
        put: '  refunds.holds[#refunds.holds + 1] = hold\n  family.defect = "MISSING_BUDGET"\n  return nil',
      },
      {
        what: 'a returned amount crosses no threshold',
        find: '        threshold.emit_crossings(tag, budget.tenant, origin, budget.unit, budget, crossings)',
        put: '',
      },
    ],
  },
};
