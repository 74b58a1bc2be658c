/** Of the rules that hold everywhere: keeping pace, dead holds, scopes, Redis' clock, damaged records. @type {import('../list.mjs').Mutations} */
export const EVERYWHERE = {
  'expiry/drain-run.ts': [
    {
      what: 'a late sweep stays polite',
      find: 'return latestMs > LATE_MS ?',
      put: 'return latestMs > Number.POSITIVE_INFINITY ?',
    },
  ],
  'expiry/partition-drain.ts': [
    {
      what: 'a late sweep takes partitions in turn',
      find: '    if (!this.isLate(run)) {\n      return queue.shift();',
      put: '    if (true) {\n      return queue.shift();',
    },
    {
      what: 'a late sweep rests as long as its calls waited',
      find: '    if (run.isLate) {\n      return;',
      put: '    if (false) {\n      return;',
    },
    {
      what: 'a sweep that becomes late judges the rest of its page as slowly as before',
      find: '!page.isCut && (wasLate || !this.isLate(run))',
      put: '!page.isCut',
    },
  ],
  'ledger/commit.lua': [
    {
      what: 'a dead hold caps a commit',
      find: "  if policy ~= 'REJECT' and int64.less(estimate, cost)",
      put: '  if false and int64.less(estimate, cost)',
    },
    {
      what: 'a commit under REJECT reclaims, too',
      find: "  if policy ~= 'REJECT' and int64.less(estimate, cost)",
      put: '  if int64.less(estimate, cost)',
    },
  ],
  'ledger/lib/admission.lua': [
    {
      what: 'a dead hold refuses or caps a direct debit',
      find: 'if not reply and (short or refusal and depends_on_holds(refusal)) then',
      put: 'if not reply and not short and refusal and depends_on_holds(refusal) then',
    },
  ],
  'governance/fund_budget.lua': [
    {
      what: 'a dead hold decides an operator’s DEBIT',
      find: 'local first = funding.reclaimed_before(tag, budget, planned, retention_ms, origin)',
      put: 'local first = nil',
    },
  ],
  'governance/bulk_budget.lua': [
    {
      what: 'a dead hold decides a row of a bulk action',
      find: 'local first = funding.reclaimed_before(tag, budget, planned, retention_ms, origin)',
      put: 'local first = nil',
    },
  ],
  'governance/update_budget.lua': [
    {
      what: 'a dead hold keeps a budget over its limit',
      find: "local first = is_capped and budget.reserved ~= '0' and",
      put: 'local first = false and',
    },
  ],
  'lib/new_figures.lua': [
    {
      what: 'funding crosses thresholds in silence',
      find: '  threshold.emit_crossings_between(tag, tenant, origin, unit, former, budget)\n',
      put: '',
    },
  ],
  'lib/scope_tree.lua': [
    {
      what: 'a scope with the same beginning lies below',
      find: "and above or above .. '/'",
      put: 'and above or above',
    },
    {
      what: 'scopes are in the order of their bytes',
      find: "  return (string.gsub(text, '/', '!'))",
      put: '  return text',
    },
  ],
  'ledger/scopes.ts': [
    {
      what: 'the service takes a scope with the same beginning for one below',
      find: "above.endsWith('/') ? above : `${above}/`",
      put: "above.endsWith('/') ? above : above",
    },
  ],
  'redis/redis-clock.ts': [
    {
      what: 'the clock of the host stands in for that of Redis',
      find: 'Math.floor(performance.now() + this.offsetMs)',
      put: 'Math.floor(performance.timeOrigin + performance.now())',
    },
    {
      what: 'each failed reading of the clock is logged',
      find: 'if (!this.isFailing && !(error',
      put: 'if (!(error',
    },
  ],
  'redis/skipped-records.ts': [
    {
      what: 'skipped records are not counted',
      find: '    this.counts.recordsSkipped.inc({ kind });\n',
      put: '',
    },
    {
      what: 'skipped records are not named',
      find: '    nameSkipped(kind, name);\n    const place',
      put: '    const place',
    },
  ],
  'lib/listing.lua': [
    {
      what: 'an index of another type makes its lists fail',
      find: "  if redis.call('TYPE', index).ok == 'zset' then",
      put: '  if true then',
    },
    {
      what: 'an index of another type is left out in silence',
      find: '  return last == index and {} or { index }',
      put: '  return {}',
    },
  ],
  'ledger/list_holds.lua': [
    {
      what: 'damaged holds are left out in silence',
      find: '    damaged[#damaged + 1] = walked_id\n',
      put: '',
    },
    {
      what: 'the damaged holds of other tenants are named',
      find: 'return subject.tenant == tenant_id or not subject.tenant',
      put: 'return true',
    },
  ],
  'expiry/reconcile.lua': [
    {
      what: 'a walk during which the clock stepped back corrects a count',
      find: 'local is_dated = not since or since <= now',
      put: 'local is_dated = true',
    },
  ],
  'reservations/reserve/funds-waiters.ts': [
    {
      what: 'a waiter is granted whatever became of its key',
      find: '      await readmitted(waiter);\n',
      put: '',
    },
    {
      what: 'a waiter that may no longer act holds up others',
      find: '          waiter.bar(error);\n',
      put: '',
    },
  ],
  'redis/grouped-calls.ts': [
    {
      what: 'a failure is an answer',
      find: '    reject(toStoreError(reply));',
      put: '    resolve([reply.message]);',
    },
    {
      what: 'waiting calls fail one run after the other while Redis is away',
      find: 'error instanceof StoreUnavailable ? queue.waiting.splice(0) : []',
      put: 'error instanceof StoreUnavailable ? [] : []',
    },
    {
      what: 'calls of a run that ended early are lost',
      find: '      if (rest.length > 0) {',
      put: '      if (false) {',
    },
  ],
  'lib/journal.lua': [
    {
      what: 'what a client reported is not journaled if less was charged',
      find: "  if charge.debt == '0' and metrics == '' and (charge.charged == actual) then",
      put: "  if charge.debt == '0' and metrics == '' then",
    },
    {
      what: 'a commit into debt is journaled without its debt',
      find: "  if charge.debt ~= '0' then\n    entry[#entry + 1], entry[#entry + 2] = 'debt', charge.debt\n  end\n  if metrics",
      put: '  if metrics',
    },
  ],
  'lib/ended_holds.lua': [
    {
      what: 'an end that charges nothing is not journaled',
      find: "  journal.append_end(tag, reservation_id, '0', origin)\n",
      put: '',
    },
  ],
  'audit/pack_records.lua': [
    {
      what: 'entries of the journal that packing has passed stay',
      find: 'journal.trim(tag)',
      put: '0',
    },
  ],
};
