/** Mistakes in the journal: an entry that is missing on one way, doubled or wrong, and packing that loses or repeats some. */
export const JOURNAL = {
  'lib/journal.lua': [
    {
      what: 'an end is in the journal twice',
      find: "  if not origin then\n    redis.call('XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged, charged)\n",
      put: "  redis.call('XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged, charged)\n  if not origin then\n",
    },
    {
      what: 'what was reported is missing where less was charged',
      find: "debt == '0' and metrics == '' and (charge.charged == actual)",
      put: "debt == '0' and metrics == ''",
    },
    {
      what: 'the debt of a debit is missing',
      find: "    entry[#entry + 1], entry[#entry + 2] = 'debt', charge.debt\n  end\n  redis.call(unpack(entry))\nend\n\n-- The reservation",
      put: '  end\n  redis.call(unpack(entry))\nend\n\n-- The reservation',
    },
  ],
  'ledger/commit.lua': [
    {
      what: 'the journal lacks commits',
      find: 'journal.append_commit(tag, reservation_id, charge, actual, metrics, origin)\n',
      put: '',
    },
    {
      what: 'the journal has what was reported instead of the charge',
      find: 'journal.append_commit(tag, reservation_id, charge, actual, metrics, origin)',
      put: 'journal.append_commit(tag, reservation_id, { charged = actual, debt = charge.debt }, actual, metrics, origin)',
    },
    {
      what: 'a damaged journal is noticed in the middle of a commit',
      find: 'journal.require_journal(tag, group)\n',
      put: '',
    },
    {
      what: 'the metrics are not kept',
      find: '  ended[#ended + 1] = field.commit_metrics\n  ended[#ended + 1] = metrics\n',
      put: '',
    },
  ],
  'ledger/direct_debit.lua': [
    {
      what: 'the journal lacks debits',
      find: 'journal.append_debit(tag, entry, charge, actual, keys.key_of_debit(idempotency))\n',
      put: '',
    },
    {
      what: 'a damaged journal is noticed in the middle of a debit',
      find: 'journal.require_journal(tag, group)\n',
      put: '',
    },
  ],
  'ledger/release.lua': [
    {
      what: 'a damaged journal is noticed in the middle of a release',
      find: 'journal.require_journal(tag)\n',
      put: '',
    },
  ],
  'lib/expiry.lua': [
    {
      what: 'the journal lacks expiries',
      find: "    journal.append_end(tag, ids[i], hold.charge or '0')\n",
      put: '',
    },
    {
      what: 'the journal lacks what an expiry cost',
      find: "journal.append_end(tag, ids[i], hold.charge or '0')",
      put: "journal.append_end(tag, ids[i], '0')",
    },
    {
      what: 'a damaged journal is noticed in the middle of an expiry',
      find: '  journal.require_journal(tag)\n',
      put: '',
    },
  ],
  'lib/ended_holds.lua': [
    {
      what: 'the journal lacks releases',
      find: "  journal.append_end(tag, reservation_id, '0', origin)\n",
      put: '',
    },
  ],
  'governance/lib/release_holds_of_closed_tenant.lua': [
    {
      what: 'the journal lacks what the closing of a tenant ends',
      find: "    journal.append_end(tag, ids[i], '0')\n",
      put: '',
    },
  ],
  'lib/damaged_release.lua': [
    {
      what: 'a mended record looks like another end',
      find: 'journal.append_mended(',
      put: 'journal.append_end(',
    },
  ],
  'audit/pack_records.lua': [
    {
      what: 'packing removes the entry behind those that it has passed',
      find: "redis.call('HSET', places, 'packed', last)",
      put: "redis.call('HSET', places, 'packed', (redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1] or { last })[1])",
    },
    {
      what: 'packing does not tell how far it has come',
      find: "  redis.call('HSET', places, 'packed', last)\n",
      put: '',
    },
  ],
};
