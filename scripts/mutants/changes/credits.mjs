/** Mistakes in credits: they burn in another order, keep too much or too little for holds, or are not accounted for. */
export const CREDITS = {
  'lib/credit_record.lua': [
    {
      what: 'credits burn without regard to their priority',
      find: 'if a.priority ~= b.priority then',
      put: 'if false then',
      tests: ['lua/credits'],
    },
    {
      what: 'the credit that ends last burns first',
      find: 'return a_ends < b_ends',
      put: 'return a_ends > b_ends',
      tests: ['lua/credits'],
    },
    {
      what: 'credits with equal ends burn by id alone',
      find: 'elseif a.starts ~= b.starts then',
      put: 'elseif false then',
      tests: ['lua/credits'],
    },
    {
      what: 'a credit ends a ms late',
      find: 'return moment and moment <= now or false',
      put: 'return moment and moment < now or false',
      tests: ['lua/credits'],
    },
    {
      what: 'an end takes away what live holds need',
      find: 'local pinned = least(credit.left, int64.negative(needed) and 0 or needed)',
      put: 'local pinned = 0',
      tests: ['lua/credits'],
    },
    {
      what: 'a pin also has what the credits before it back',
      find: 'before = credits.list[i].is_active and sum(before, credits.list[i].left) or before',
      put: '',
      tests: ['lua/credits'],
    },
    {
      what: 'a pin also has what older pins back',
      find: 'local credit, before = table.remove(credits.list, place), pinned_of(credits)',
      put: 'local credit, before = table.remove(credits.list, place), 0',
      tests: ['lua/credits'],
    },
    {
      what: 'each pin is clipped by itself',
      find: 'local room = difference(pin.live, backed)',
      put: 'local room = pin.live',
      tests: ['lua/credits'],
    },
    {
      what: 'a pin stays as it is when the holds it is for end',
      find: 'pins[i].live = difference(pin.live, estimate)',
      put: 'pins[i].live = pin.live',
      tests: ['lua/credits'],
    },
    {
      what: 'a hold that was made after an end draws on its pin',
      find: 'if made_at < pin.ends then',
      put: 'if true then',
      tests: ['lua/credits'],
    },
    {
      what: 'a scheduled credit pays',
      find: 'credit = credit.is_active and pay(credit) or credit',
      put: 'credit = pay(credit)',
      tests: ['lua/credits'],
    },
    {
      what: 'a credit repays no debt',
      find: 'int64.less(figures.debt, credit.left) and figures.debt or int64.text(credit.left)',
      put: "'0'",
      tests: ['lua/credits'],
    },
    {
      what: 'what starts comes before what ends in the same ms',
      find: 'moment == first and starts and credit.is_active)',
      put: 'moment == first and not starts and not credit.is_active)',
      tests: ['lua/credits'],
    },
    {
      what: 'a hold that is made after the clock went back draws on pins',
      find: 'now = math.max(now, pin.ends)',
      put: 'now = now',
      tests: ['lua/credits'],
    },
    {
      what: 'the credit that paid first gets a refund first',
      find: 'for i = #paid, 1, -1 do',
      put: 'for i = 1, #paid do',
      tests: ['lua/credits'],
    },
  ],
  'lib/credit_turn.lua': [
    {
      what: 'the record does not say what lapsed',
      find: "    redis.pcall('HINCRBY', keys.credit(tag, lapse[1]), 'lapsed', lapse[2])\n",
      put: '',
      tests: ['lua/credits'],
    },
    {
      what: 'the record of an ended credit stays for ever',
      find: "    redis.pcall('PEXPIRE', keys.credit(tag, id), KEPT_MS)\n",
      put: '',
      tests: ['lua/credits'],
    },
    {
      what: 'the job does not find the end of a credit',
      find: "    redis.call('ZADD', keys.credit_index(tag), moment, member)\n",
      put: '',
      tests: ['lua/credits'],
    },
    {
      what: 'the credits of a closed budget end',
      find: "status == 'CLOSED' or not credit_record.is_due",
      put: 'false or not credit_record.is_due',
      tests: ['lua/credits'],
    },
  ],
  'lib/granted_credits.lua': [
    {
      what: 'the 65th credit is granted',
      find: '#credits.list + #credits.pins + #grants > credit_record.MOST',
      put: 'false',
      tests: ['lua/credits'],
    },
  ],
  'governance/grant_credit.lua': [
    {
      what: 'a credit that has ended is granted',
      find: 'if ends and (ends <= now or ends <= starts) then',
      put: 'if false then',
      tests: ['lua/credits'],
    },
    {
      what: 'a repeated grant grants again',
      find: 'idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)\n',
      put: '',
      tests: ['lua/credits'],
    },
  ],
};
