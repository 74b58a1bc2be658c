/** Of the figures of budgets. @type {import('../list.mjs').Mutations} */
export const BUDGETS = {
  'ledger/lib/charging.lua': [
    {
      what: 'REJECT charges an overage',
      find: "    if overage_policy == 'REJECT' then",
      put: "    if overage_policy == 'NEVER' then",
    },
    {
      what: 'debt may pass the overdraft limit',
      find: 'if not total or int64.less(budget.overdraft_limit, total) then',
      put: 'if not total then',
    },
    {
      what: 'debt may not reach the overdraft limit',
      find: 'if not total or int64.less(budget.overdraft_limit, total) then',
      put: 'if not total or not int64.less(total, budget.overdraft_limit) then',
    },
    {
      what: 'a capped scope is not marked',
      find: "    budget.is_over_limit = '1'",
      put: '',
    },
    {
      what: 'the cap ignores all scopes but the last',
      find: '      if int64.less(available, granted) then\n        granted = available\n      end',
      put: '      granted = available',
    },
    {
      what: 'unfunded spending counts as spent, too',
      find: "unfunded == '0' and charged or int64.sub(charged, unfunded), ",
      put: 'charged, ',
    },
    {
      what: 'a scope with an overdraft limit is capped',
      find: 'ALLOW_WITH_OVERDRAFT = function(budget) return not int64.positive(budget.overdraft_limit) end',
      put: 'ALLOW_WITH_OVERDRAFT = function() return true end',
    },
    {
      what: 'a window does not cap an overage',
      find: '      if int64.less(room, granted) then',
      put: '      if false then',
    },
    {
      what: 'a window is not charged what becomes debt',
      find: 'window_record.charged_windows(budget.windows, charged)',
      put: 'window_record.charged_windows(budget.windows, int64.sub(charged, unfunded))',
    },
    {
      what: 'debt has no event',
      find: "    if budget.debt_incurred ~= '0' then\n      entry",
      put: '    if false then\n      entry',
    },
  ],
  'lib/shared_budgets.lua': [
    {
      what: 'a budget changed by someone else is taken from memory',
      find: '  if budget and bring_up_to_date(budget, f) then',
      put: '  if budget then',
    },
    {
      what: 'the limits and the status of a budget are those in memory',
      find: '  if not (f[1] and f[2] and f[3]) or not is_same_otherwise(budget, f) then',
      put: '  if not (f[1] and f[2] and f[3]) then',
    },
    {
      what: 'the change of a budget is not written',
      find: '    write_budget(budget, change, group.charged_windows[budget])',
      put: '',
    },
    {
      what: 'debt is not written',
      find: "    change = 'debt'\n",
      put: '',
    },
    {
      what: 'a later charge hides the debt of an earlier one',
      find: '  if not earlier or RANKS[change] > RANKS[earlier] then\n    group.changed[budget] = change\n  end',
      put: '  group.changed[budget] = change',
    },
    {
      what: 'a figure that has grown beyond 15 digits stays a double',
      find: "return #text <= 15 and type(figure) == 'number' and figure or",
      put: "return type(figure) == 'number' and figure or",
    },
    {
      what: 'the charge of a window is not written',
      find: '    group.charged_windows[budget] = true',
      put: '',
    },
    {
      what: 'what is rare about a budget is that of its first call',
      find: '  note_lasting(budget)\n  note_change(',
      put: '  note_change(',
    },
    {
      what: 'nobody who waits is told after a run',
      find: '  if budget.waiting then\n    waking.wake_waiters(budget.key)',
      put: '  if false then\n    waking.wake_waiters(budget.key)',
    },
  ],
  'lib/grouped.lua': [
    {
      what: 'only the first entry of an index is written',
      find: '      redis.call(unpack(command))',
      put: '',
    },
    {
      what: 'the counts of a tenant are not written',
      find: '      owned_counts.write_owned(tag, tenant_id, owned)',
      put: '',
    },
    {
      what: 'the next calls go on after one that left the group',
      find: '      if group.is_left then\n        break\n      end',
      put: '',
    },
    {
      what: 'a call that left the group does not write what the others did',
      find: '  if not group.rehearses then\n    write(group, tag)\n  end\n',
      put: '',
    },
    {
      what: 'what the tenant owns is read again for each call',
      find: '    group.owned[tenant_id] = owned\n',
      put: '',
    },
    {
      what: 'long metadata counts for the last commit of a run only',
      find: 'ended.text, ended.ids[#ended.ids + 1] = ended.text + text,',
      put: 'ended.text, ended.ids[#ended.ids + 1] = text,',
    },
  ],
  'lib/period.lua': [
    {
      what: 'a period ends a millisecond late',
      find: "  return now >= ends and status ~= 'CLOSED'",
      put: "  return now > ends and status ~= 'CLOSED'",
    },
    {
      what: 'a closed budget rolls over',
      find: "  return now >= ends and status ~= 'CLOSED'",
      put: '  return now >= ends',
    },
    {
      what: 'what is reserved is not carried over',
      find: 'int64.sub(int64.sub(budget.allocated, budget.spent), budget.held_by_credits)',
      put: 'budget.remaining',
    },
    {
      what: 'what is carried over has no cap',
      find: "  if budget.policy == 'CAP_AT_ALLOCATED' then",
      put: '  if false then',
    },
    {
      what: 'debt is forgiven',
      find: '  remaining = remaining and int64.sub(remaining, budget.debt)\n',
      put: '',
    },
    {
      what: 'the last rollover covers one boundary',
      find: 'local all, starts, ends, count = #states + 1 == MOST_ROLLOVERS',
      put: 'local all, starts, ends, count = false',
    },
  ],
  'lib/budget_figures.lua': [
    {
      what: 'budgets out of balance are used',
      find: '    if not is_balanced(budget.remaining_figure,',
      put: '    if false and not is_balanced(budget.remaining_figure,',
    },
    {
      what: 'a negative figure is in balance',
      find: '\n      and reserved >= 0 and spent >= 0 and allocated >= 0 and debt >= 0',
      put: '',
      because:
        'a budget with such a figure is refused as it is read, and each operation checks what it takes away; this repeats it before the write',
    },
    {
      what: 'the mark of a capped charge does not count',
      find: "  if budget.is_over_limit == '1' then\n    return true\n  end",
      put: '',
    },
    {
      what: 'debt of exactly the limit is over it',
      find: 'return int64.positive(budget.overdraft_limit) and int64.less(budget.overdraft_limit, budget.debt)',
      put: 'return int64.positive(budget.overdraft_limit) and not int64.less(budget.debt, budget.overdraft_limit)',
    },
    {
      what: 'new funds do not clear the mark of a capped charge',
      find: "and '0' or mark",
      put: 'and mark or mark',
    },
  ],
  'governance/lib/funding.lua': [
    {
      what: 'DEBIT takes more than remains',
      find: '    if int64.less(budget.remaining, amount)\n',
      put: '    if false\n',
    },
    {
      what: 'CREDIT does not pay debt',
      find: 'int64.add(allocated, amount), int64.add(spent, repaid), int64.sub(debt, repaid)',
      put: 'int64.add(allocated, amount), spent, debt',
    },
    {
      what: 'REPAY_DEBT drops what is beyond the debt',
      find: 'int64.add(allocated, int64.sub(amount, repaid)), int64.sub(debt, repaid)',
      put: 'allocated, int64.sub(debt, repaid)',
    },
  ],
};
