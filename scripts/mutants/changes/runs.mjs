/** Of what the calls of a run share, and of what a hold gives back. @type {import('../list.mjs').Mutations} */
export const RUNS = {
  'lib/damaged_release.lua': [
    {
      what: 'a damaged hold that is released tells nobody who waits',
      find: '    if budget.waiting then',
      put: '    if false then',
    },
    {
      what: 'a damaged hold that is released keeps its place in the quota of the run',
      find: '    action_counters.uncount_run(tag, tenant, known[field.run_counters])',
      put: '',
    },
    {
      what: 'a damaged hold that is released counts as live',
      find: '    owned_counts.count_ended(tag, tenant, 1)',
      put: '',
    },
    {
      what: 'the record of a damaged hold is kept for ever',
      find: '  ended_holds.end_uncharged(tag, reservation_id, retention_ms, origin)',
      put: "  journal.append_end(tag, reservation_id, '0')\n  ended_holds.leave_quarantine(tag, reservation_id)",
    },
  ],
  'governance/lib/release_holds_of_closed_tenant.lua': [
    {
      what: 'the closing keeps the quota of the run',
      find: '    action_counters.uncount_run(tag, tenant_id, hold[field.run_counters])',
      put: '',
    },
    {
      what: 'the closing leaves the count of live reservations',
      find: '  owned_counts.count_ended(tag, tenant_id, #ids)',
      put: '',
    },
    {
      what: 'the closing leaves entries in the index of deadlines',
      find: "  redis.call('ZREM', index, unpack(ids))",
      put: '',
    },
    {
      what: 'the closing returns nothing to the budgets',
      find: '  give_back.write_returns(tag, returns, origin)',
      put: '',
    },
  ],
  'ledger/release.lua': [
    {
      what: 'a release tells nobody who waits at the root',
      find: '  if budget.waiting then\n    waking.wake_waiters(budget.key)',
      put: '  if budget.waiting and budget ~= budgets[1] then\n    waking.wake_waiters(budget.key)',
    },
  ],
  'lib/index_walk.lua': [
    {
      what: 'a walk that goes on skips the rest of its millisecond',
      find: '  local start = ranks_behind(index, score, member)\n',
      put: '  local _, start = ranks_behind(index, score, member)\n',
    },
  ],
  'governance/roll_over_budgets.lua': [
    {
      what: 'a full page of ended periods is the last one',
      find: "(#due == limit or #due_credits == limit) and '1' or '0', tostring",
      put: "'0', tostring",
    },
  ],
  'worker/partition-leases.ts': [
    {
      what: 'a renewal without an answer loses the partition',
      find: '      return { word: undefined, lapsesAt: Number.POSITIVE_INFINITY };\n    }\n  }',
      put: "      return { word: 'other', lapsesAt: Number.POSITIVE_INFINITY };\n    }\n  }",
    },
    {
      what: 'a renewal that was overtaken loses the partition that was taken again',
      find: 'this.held.get(partition.number) === partition',
      put: 'this.held.has(partition.number)',
    },
    {
      what: 'a beat that was overtaken by a shutdown takes partitions',
      find: '    if (!turn.goesOn()) {',
      put: '    if (false) {',
    },
    {
      what: 'a partition with work in flight is given away',
      find: '.filter((partition) => this.terms.mayLeave(partition))',
      put: '',
    },
  ],
};
