// What each curve of `npm run bench -- growth` shows, and why it runs like this.

/** @type {Readonly<Record<string, string>>} by the curves' names */
export const EXPLANATIONS = {
  'live-reservations':
    'A reserve adds to two sorted sets, the index of deadlines and the list of the tenant, and a commit leaves the first one: O(log n) each. ' +
    'The commits end random reservations, and deadlines are spread over 20 hours, so a larger size probably misses the processor caches more often, too.',
  'live-bytes':
    'Growth of `used_memory` since the size before. A size at which Redis doubles a hash table can stand out.',
  queries:
    'A list in order of creation reads one page of the index. A history reads the record and the events of its reservation. ' +
    'Both grow less than the logarithm; the likely reason is that larger ledgers miss the processor caches more often.',
  verify:
    'Recomputing a budget needs every reservation of the tenant, so `verify` is linear, and this is the cost of each record. Its scripts read a bounded ' +
    'number of records at a time and let other work in between.',
  'sorted-lists':
    'No index has the order of a list that is sorted by amount, so each page compares all records of the tenant: it is linear, and this is the cost of ' +
    'each record, read by bounded scripts. More than a million are refused until `from` and `to` narrow the list.',
  tenants:
    'Each tenant has one budget, and no call looks through tenants. With many tenants, what a call needs is probably no longer in the processor caches.',
  budgets:
    'A call finds the budgets of its own scopes by their keys, here one, however many others the tenant has.',
  scopes:
    'The cost of a scope is fixed: a budget to read, check and write, and its balance in the reply. A subject has at most six scopes.',
  subscriptions:
    'A call appends its events to a log and does not look at subscriptions. The dispatcher does that later. Its work is not part of this curve, and is ' +
    'proportional to the subscriptions that match.',
  lateness:
    'The sweeper polls its index of deadlines, so at low rates lateness is the pause between two polls. Unlike processor time, lateness includes ' +
    'whatever else the machine does: at the highest rates, the benchmark, the service and Redis compete for its processors.',
};
