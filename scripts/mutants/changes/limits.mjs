/** Of limits on what a tenant may own and do. @type {import('../list.mjs').Mutations} */
export const LIMITS = {
  'lib/owned_counts.lua': [
    {
      what: 'one live reservation more is allowed',
      find: '  if allowed > 0 and owned.live >= allowed then',
      put: '  if allowed > 0 and owned.live > allowed then',
    },
    {
      what: 'ended reservations stay in the count',
      find: "  redis.pcall('HINCRBY', keys.owned(tag, tenant_id), 'live', -count)",
      put: '',
    },
    {
      what: 'the own limit of a tenant does not count',
      find: '  return limit_of(own or deployment_limit)',
      put: '  return limit_of(deployment_limit)',
    },
    {
      what: 'one resource more is allowed',
      find: '  return used + (wanted or 1) > allowed and',
      put: '  return used + (wanted or 1) > allowed + 1 and',
    },
  ],
  'lib/policy_rate.lua': [
    {
      what: 'one request more is allowed in a minute',
      find: '  if tonumber(used or 0) + (rehearsed or 0) < allowed then',
      put: '  if tonumber(used or 0) + (rehearsed or 0) <= allowed then',
    },
    { what: 'requests are not counted', find: "    redis.call('INCR', counter)", put: '' },
  ],
  'ledger/lib/action_quota.lua': [
    {
      what: 'an allowlist of hosts covers every action',
      find: '(not rule.hosts or rule.hosts[string.lower(decoded(host))] ~= nil)',
      put: 'true',
    },
    {
      what: 'quotas of a tenant count at the scope of the policy',
      find: "rule.window == 'per_tenant_per_day' and root or scope",
      put: 'scope',
    },
  ],
  'lib/kept_counters.lua': [
    {
      what: 'one action more is allowed',
      find: 'if used >= limits[i] then',
      put: 'if used > limits[i] then',
    },
    {
      what: 'a counter that something else has changed is not read again',
      find: 'if counter.text ~= text or counter.minute ~= minute or run then',
      put: 'if counter.text == nil or counter.minute ~= minute or run then',
    },
    {
      what: 'a counter of the last minute goes on',
      find: 'if counter.text ~= text or counter.minute ~= minute or run then',
      put: 'if counter.text ~= text then',
    },
    {
      what: 'what a failed run has counted stays in memory',
      find: '      counter.text = nil\n',
      put: '',
    },
  ],
};
