/** Of reserves that wait for funds. @type {import('../list.mjs').Mutations} */
export const WAITING = {
  'ledger/lib/waiters.lua': [
    {
      what: 'a second waiter of a run passes the first',
      find: "      budget.waiting = '1'\n",
      put: '',
    },
    {
      what: 'a waiter passes those that came before it',
      find: '      if not waiter.number or tonumber(number) < waiter.number then',
      put: '      if false then',
    },
    {
      what: 'one waiter more is allowed',
      find: "    if redis.call('ZCARD', alive) >= waiter.most then",
      put: "    if redis.call('ZCARD', alive) > waiter.most then",
    },
    {
      what: 'a reserve waits whose time is over',
      find: ' or waiter.wait_ms == 0 then',
      put: ' then',
    },
    {
      what: 'a waiter that moves keeps its former place, too',
      find: "    redis.call('ZREM', keys.waiter_queue(tag, unit, waiter.scope), place)\n",
      put: '',
    },
    {
      what: 'a waiter that moves wakes nobody behind it',
      find: '    waking.wake_waiters(keys.budget(tag, unit, waiter.scope))\n',
      put: '',
    },
    {
      what: 'a waiter that has its funds keeps its place',
      find: "    redis.pcall('ZREM', keys.waiter_queue(tag, unit, waiter.scope), waiter.place)\n",
      put: '',
      because: 'a place that the tenant does not have counts as lapsed, and the next wake-up removes it',
    },
  ],
  'lib/waking.lua': [
    {
      what: 'places of dead instances count',
      find: '      if alive_until >= now then',
      put: '      if true then',
    },
    {
      what: 'the first one is woken whatever remains',
      find: '  if place and is_worth_a_try(budget, place) then',
      put: '  if place then',
    },
    {
      what: 'a budget says that reserves wait when none does',
      find: "      redis.call('HDEL', budget, 'waiting')\n",
      put: '',
    },
  ],
  'ledger/renew_waiters.lua': [
    {
      what: 'a lost place is not put back',
      find: "  if has_lost and redis.call('EXISTS', budget) == 1 then",
      put: '  if false then',
    },
    {
      what: 'a place is put back in a budget that is gone',
      find: "  if has_lost and redis.call('EXISTS', budget) == 1 then",
      put: '  if has_lost then',
    },
    {
      what: 'an outcome of the same idempotency key goes unnoticed',
      find: "  if redis.call('EXISTS', keys.reserve_idempotency(tag, tenant_id, ARGV[i + 4])) == 1 then",
      put: '  if false then',
    },
  ],
};
