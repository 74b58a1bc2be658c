/** Of passes over several pages, and of the calls that share a run. @type {import('../list.mjs').Mutations} */
export const PASSES = {
  'lib/grouped.lua': [
    {
      what: 'one hold of a run counts as ended',
      find: 'count_ended(tag, tenant_id, #ended.ids, ended.text)',
      put: 'count_ended(tag, tenant_id, 1, ended.text)',
    },
    {
      what: 'only the first hold of a run leaves the quarantine',
      find: 'leave_quarantine(tag, unpack(ended.ids))',
      put: 'leave_quarantine(tag, ended.ids[1])',
    },
  ],
  'ledger/lib/all_or_none.lua': [
    {
      what: 'a refused set grants the members before',
      find: '  rehearsal.set, rehearsal.rehearses = new_set(calls), true',
      put: '  rehearsal.set = new_set(calls)',
    },
    {
      what: 'an action in two units counts twice',
      find: '  if set.units[of_unit] <= (set.actions[action] or 0) then\n    return false\n  end\n',
      put: '',
    },
    {
      what: 'two actions in one unit count once',
      find: '  set.actions[action] = set.units[of_unit]',
      put: '  set.actions[action] = math.huge',
    },
    {
      what: 'a set of which a record is gone is granted again',
      find: 'is_torn = known > 0 and known < #calls,',
      put: 'is_torn = false,',
    },
    {
      what: 'the records of a set lapse one after the other',
      find: 'new_set(calls, rehearsal.set.lives_ms)',
      put: 'new_set(calls, 0)',
    },
  ],
  'ledger/extend.lua': [
    {
      what: 'an extension leaves the other records of the set behind',
      find: '    idempotency_record.lapse_together(records)\n',
      put: '',
    },
  ],
  'lib/index_walk.lua': [
    {
      what: 'a walk that goes on begins its millisecond again',
      find: '  local start = ranks_behind(index, score, member)\n',
      put: "  local start = redis.call('ZCOUNT', index, '-inf', '(' .. score)\n",
    },
  ],
  'governance/expire_api_keys.lua': [
    {
      what: 'a full page of expired keys is the last one',
      find: "#due == limit and '1' or '0' }",
      put: "'0' }",
    },
    {
      what: 'a key that was revoked is told to have expired',
      find: "and record and record.status == 'ACTIVE' then",
      put: 'and record then',
    },
  ],
  'expiry/reconcile.lua': [
    {
      what: 'a hold that ends during the walk was never live',
      find: '  elseif state and since and born_ms <= since then',
      put: '  elseif false then',
    },
    {
      what: 'a missing entry stays missing',
      find: "  redis.call('ZADD', index, deadline, reservation_id)\n",
      put: '',
    },
  ],
  'audit/pack_records.lua': [
    {
      what: 'what remains to be packed is not told',
      find: 'tostring(remaining), ',
      put: "'0', ",
    },
  ],
  'redis/grouped-calls.ts': [
    {
      what: 'calls of all scripts share runs',
      find: 'script.functionName + tag',
      put: 'tag',
    },
    {
      what: 'every call of a run gets the reply of the first',
      find: 'replyOf(text))',
      put: 'replyOf(texts[0] ?? text))',
    },
    {
      what: 'each call has a run of its own',
      find: 'splice(0, queue.most)',
      put: 'splice(0, 1)',
    },
  ],
  'lib/stream_walk.lua': [
    {
      what: 'the next portion of a stream begins with the last entry of the former',
      find: "    start, portion = '(' .. last,",
      put: '    start, portion = last,',
    },
  ],
};
