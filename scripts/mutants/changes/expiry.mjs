/** Of deadlines, expiry and returns. @type {import('../list.mjs').Mutations} */
export const EXPIRY = {
  'lib/hold_record.lua': [
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
  'lib/expiry.lua': [
    {
      what: 'an expiry charges nothing',
      find: "charge ~= '0' and charge or nil)",
      put: 'nil)',
    },
    {
      what: 'a hold may cost more than it holds',
      find: 'int64.is_amount(charge) and not int64.less(hold.amount, charge)',
      put: 'int64.is_amount(charge)',
    },
    {
      what: 'a charge gives the place in the quota of the run back',
      find: '    if not hold.charge then\n      action_counters',
      put: '    if true then\n      action_counters',
    },
    {
      what: 'the journal has no charge of an expiry',
      find: "    journal.append_end(tag, ids[i], hold.charge or '0')",
      put: "    journal.append_end(tag, ids[i], '0')",
    },
    {
      what: 'the event does not tell the charge',
      find: "      figures[#figures + 1], figures[#figures + 2] = 'charged', hold.charge",
      put: '',
    },
    {
      what: 'the budgets get nothing back',
      find: '  give_back.write_returns(tag, returns, teller)',
      put: '',
    },
    {
      what: 'the hold stays in the index',
      find: "  redis.call('ZREM', hold_record.deadline_index_key(tag, returns.holds[1]), unpack(ids))",
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
      find: '    if returns.taken[reservation_id] then',
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
  'lib/give_back.lua': [
    {
      what: 'more than is reserved can be returned',
      find: 'return reserved >= amount and remaining + returned, reserved - amount',
      put: 'return remaining + returned, reserved - amount',
    },
    {
      what: 'only the leaf is charged',
      find: '      budget.spent_figure, budget.windows, budget.is_charged = budget.then_spent, budget.then_windows, true',
      put: '      if i == #family then budget.spent_figure, budget.windows, budget.is_charged = budget.then_spent, budget.then_windows, true end',
    },
    {
      what: 'a charge does not return the rest',
      find: 'moved_back(budget, amount, charge and int64.sub(amount, charge) or amount)',
      put: 'moved_back(budget, amount, charge and 0 or amount)',
    },
    {
      what: 'a charge returns everything',
      find: 'moved_back(budget, amount, charge and int64.sub(amount, charge) or amount)',
      put: 'moved_back(budget, amount, amount)',
    },
    {
      what: 'a charge counts in no window',
      find: "    redis.call('HSET', budget.key, 'windows', window_record.windows_text(budget.windows))",
      put: '',
    },
    {
      what: 'a charge counts in the window that was',
      find: '      if text and window_turn.turn_windows_if_due(tag, budget.key, text, budget.status, returns.now) then',
      put: '      if false then',
    },
    {
      what: 'a charge that int64 cannot hold is made',
      find: '    if not budget.then_spent or budget.windows and not budget.then_windows then',
      put: '    if false then',
    },
    {
      what: 'a missing budget stops nothing',
      find: "    budget.defect = 'MISSING_BUDGET'",
      put: '    budget.remaining, budget.reserved = 0, 0',
    },
    {
      what: 'only the first of several holds is refunded',
      find: '  returns.holds[#returns.holds + 1] = hold\n  return nil',
      put: '  returns.holds[#returns.holds + 1] = hold\n  family.defect = "MISSING_BUDGET"\n  return nil',
    },
    {
      what: 'a returned amount crosses no threshold',
      find: '        threshold.emit_crossings(tag, budget.tenant, origin, budget.unit, budget, crossings)',
      put: '',
    },
  ],
  'ledger/lib/charge_on_expiry.lua': [
    {
      what: 'a share is rounded down',
      find: 'int64.sub(amount, rest_of(amount, percent))',
      put: 'rest_of(amount, 100 - percent)',
    },
    {
      what: 'the last two digits of a long amount have no share',
      find: 'int64.text(math.floor(tonumber(last_digits) * (100 - percent) / 100))',
      put: "'0'",
    },
    {
      what: 'a share may be more than the amount',
      find: '  if percent > 100 then',
      put: '  if false then',
    },
  ],
  'ledger/reserve.lua': [
    {
      what: "the tenant's share wins over the policy's",
      find: 'policy and policy.charge_percent or tenant and tenant.charge_percent',
      put: 'tenant and tenant.charge_percent or policy and policy.charge_percent',
    },
    {
      what: "a share wins over the request's own charge",
      find: 'charge_percent and not denial.has_field(ARGV, first_field, field.charge_on_expiry)',
      put: 'charge_percent',
    },
  ],
};
