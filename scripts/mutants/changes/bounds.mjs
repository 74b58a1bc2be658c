/** Of both sides of a bound, of two where one would do, and of what comes first. @type {import('../list.mjs').Mutations} */
export const BOUNDS = {
  'ledger/lib/charge_on_expiry.lua': [
    { what: 'a share of 14 digits is rounded', find: '#amount <= 13', put: '#amount <= 14' },
  ],
  'governance/authenticate.lua': [
    {
      what: 'a key is valid in the millisecond of its expiry',
      find: 'if expires_in_ms <= 0 then',
      put: 'if expires_in_ms < 0 then',
    },
  ],
  'governance/validate_api_key.lua': [
    {
      what: 'a key passes validation in the millisecond of its expiry',
      find: 'record.expires_at <= time.now_ms()',
      put: 'record.expires_at < time.now_ms()',
    },
  ],
  'governance/expire_api_keys.lua': [
    {
      what: 'an expiry is told a millisecond early',
      find: 'time.ms_text(time.now_ms())',
      put: 'time.ms_text(time.now_ms() + 1)',
    },
  ],
  'governance/authenticate_operator.lua': [
    {
      what: 'an operator’s key is valid in the millisecond of its expiry',
      find: 'if left_ms <= 0 then',
      put: 'if left_ms < 0 then',
    },
    {
      what: 'the former key outlives the new one',
      find: 'math.min(ends_at, record.previous_until)',
      put: 'record.previous_until',
    },
  ],
  'governance/rotate_operator.lua': [
    {
      what: 'a rotation revives an expired key',
      find: 'math.min(record.expires_at, now + overlap_ms)',
      put: 'now + overlap_ms',
    },
  ],
  'expiry/reconcile.lua': [
    {
      what: 'a hold that ends in the millisecond in which a walk began had ended before',
      find: 'ended_ms >= since and',
      put: 'ended_ms > since and',
    },
    {
      what: 'a hold that ends in the millisecond in which a walk began ends after',
      find: '(ended_ms > since and born_ms < since)',
      put: '(ended_ms >= since and born_ms < since)',
    },
    {
      what: 'a hold of the millisecond in which a walk began came after',
      find: 'high = high + ((not since or born_ms <= since)',
      put: 'high = high + ((not since or born_ms < since)',
    },
    {
      what: 'a hold of the millisecond in which a walk began came before',
      find: 'low = low + ((not since or born_ms < since)',
      put: 'low = low + ((not since or born_ms <= since)',
    },
  ],
  'ledger/lib/all_or_none.lua': [
    {
      what: 'the passes of a set have two instants',
      find: 'group.now, group.set = rehearsal.now,',
      put: 'group.now, group.set = nil,',
    },
  ],
  'lib/grouped.lua': [
    {
      what: 'the events of a set count against its members',
      find: 'owned.max_live, owned.max_stored = 0, 0',
      put: '',
    },
  ],
  'ledger/reserve.lua': [
    {
      what: 'a set meets a damaged index in the middle of its change',
      find: "  redis.call('ZCARD', keys.reservation_index(tag, tenant_id))\n",
      put: '',
    },
  ],
  'auth/rate-limits.ts': [
    {
      what: 'a whole minute is too much for one request',
      find: 'if (all > this.perMinute) {',
      put: 'if (all >= this.perMinute) {',
    },
    {
      what: 'a request that stands for several counts once more',
      find: 'this.admitAll(source, reply, all - 1)',
      put: 'this.admitAll(source, reply, all)',
    },
  ],
  'reservations/batch/batch.controller.ts': [
    {
      what: 'the first of each sixteen operations is not counted',
      find: 'isFirst: first + index === 0',
      put: 'isFirst: index === 0',
    },
    {
      what: 'an operation that the key may not do is not counted',
      find: '      if (!turn.isFirst) {\n',
      put: '      this.access.requirePermission(caller, access);\n      if (!turn.isFirst) {\n',
    },
  ],
  'console/provider-claims.ts': [
    {
      what: 'the first role of the settings wins',
      find: ' || includesRole(role, best)',
      put: '',
    },
    {
      what: 'the last role of the settings wins',
      find: ' && (best === undefined || includesRole(role, best))',
      put: '',
    },
  ],
  'console/identity-provider.ts': [
    {
      what: 'user information wins over signed claims',
      find: '{ ...more, ...own }',
      put: '{ ...own, ...more }',
    },
  ],
  'webhooks/transport/attempt.ts': [
    { what: 'status 499 is a failure of the server', find: 'status < 500 ?', put: 'status < 499 ?' },
    {
      what: 'status 399 is a refusal',
      find: "const reason = status < 400 ? 'http_3xx'",
      put: "const reason = status < 399 ? 'http_3xx'",
    },
  ],
  'usage/report-sql.ts': [
    {
      what: 'a charge in the instant of a clock change counts before it',
      find: 'WHEN recorded_at >= ${instant(fromMs, bound)}',
      put: 'WHEN recorded_at > ${instant(fromMs, bound)}',
    },
    {
      what: 'one segment of an entry of a scope filter is enough',
      find: ".join(' AND '),\n    );",
      put: ".join(' OR '),\n    );",
    },
  ],
  'usage/time-zone.ts': [
    {
      what: 'clocks change a millisecond early',
      find: 'found.push({ fromMs: atMs, offsetMs',
      put: 'found.push({ fromMs: atMs - 1, offsetMs',
    },
  ],
  'expiry/partition-drain.ts': [
    {
      what: 'a batch that fails leaves those beside it in flight',
      find: "const failed = (await Promise.allSettled(lanes)).find(({ status }) => status === 'rejected');",
      put: 'await Promise.all(lanes); const failed = undefined as PromiseRejectedResult | undefined;',
    },
  ],
  'archive/archive_page.lua': [
    {
      what: 'what is exactly as old as the settle age is archived',
      find: 'now - settle_ms - 1',
      put: 'now - settle_ms',
    },
    {
      what: 'the next day is archived before it has settled',
      find: 'if stop_ms and stop_ms <= upper then',
      put: 'if stop_ms then',
    },
  ],
  'archive/archive_advance.lua': [
    {
      what: 'what is archived goes back with the clock',
      find: "if through_ms ~= '' and tonumber(through_ms) > (tonumber(at[2]) or 0) then",
      put: "if through_ms ~= '' then",
    },
    {
      what: 'a cursor moves backwards',
      find: ' or entry_order.is_before(last, cursor)',
      put: '',
    },
  ],
  'archive/day-publisher.ts': [
    {
      what: 'a day without rows of a stream does not say where it ends',
      find: '    content.ends[partitionCode(partition)] = end;',
      put: '    if (now.links.length > 0) {\n      content.ends[partitionCode(partition)] = end;\n    }',
    },
  ],
  'archive/archiver.service.ts': [
    {
      what: 'a partition that fails stops those after it',
      tests: ['archive/published'],
      find: '          errors.push(error);',
      put: '          errors.push(error);\n          return;',
    },
  ],
};
