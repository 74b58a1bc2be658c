/** Of budgets that templates make. @type {import('../list.mjs').Mutations} */
export const TEMPLATES = {
  'ledger/lib/budget_templates.lua': [
    {
      what: 'the least literal pattern wins',
      find: '  for literal = #segments, 1, -1 do',
      put: '  for literal = 1, #segments do',
    },
    {
      what: 'a pattern with an open level is not found',
      find: '  for literal = #segments, 1, -1 do',
      put: '  for literal = #segments, #segments do',
    },
    {
      what: 'what is known of a scope outlives a change of the templates',
      find: '  if known.revision ~= revision then',
      put: '  if not known.revision then',
    },
    {
      what: 'what is known of a scope is of any unit',
      find: "patterns[#patterns + 1] = unit .. ' ' .. table.concat(parts, '/')",
      put: "patterns[#patterns + 1] = 'TOKENS ' .. table.concat(parts, '/')",
    },
    {
      what: 'budgets beyond the limit of the tenant are made',
      find: 'keys.budget_index(tag, tenant_id), #unborn,',
      put: 'keys.budget_index(tag, tenant_id), 0,',
    },
    {
      what: 'several budgets of a request count as one',
      find: 'keys.budget_index(tag, tenant_id), #unborn,',
      put: 'keys.budget_index(tag, tenant_id), 1,',
    },
    {
      what: 'the limit does not count what a rehearsal has made',
      find: '#unborn,\n    group.rehearsed_births)',
      put: '#unborn)',
    },
  ],
  'ledger/lib/births.lua': [
    { what: 'a rehearsal makes budgets', find: '    if group.rehearses then', put: '    if false then' },
    {
      what: 'calls of a run do not share a budget that one of them has made',
      find: '    shared_budgets.adopt(group, budget)\n',
      put: '',
    },
    {
      what: 'a damaged index is met in the middle of the change',
      find: '    budget_birth.require_places(tag, tenant_id)\n',
      put: '',
    },
    { what: 'a birth is not counted', find: "      redis.pcall('INCR', keys.born(tag))\n", put: '' },
    {
      what: 'the client is named as who made it',
      find: "{ actor = 'system',",
      put: "{ actor = 'api_key',",
    },
    {
      what: 'a damaged index of credits is met in the middle of the change',
      find: '        credit_grant.require_places(tag, budget.birth.unit, budget.scope)\n',
      put: '',
      tests: ['lua/template-credits'],
    },
    {
      what: 'a budget gets no credits of its template',
      find: '      if birth.plan then',
      put: '      if false then',
      tests: ['lua/template-credits'],
    },
  ],
  'lib/budget_birth.lua': [
    {
      what: 'a budget does not name its template',
      find: "    redis.call('HSET', key, 'template_id', birth.template_id, 'template_revision', birth.revision)\n",
      put: '',
    },
    {
      what: 'a budget is not in the index of its tenant',
      find: "  redis.call('ZADD', keys.budget_index(tag, birth.tenant_id), 0, scope_tree.in_tree_order(scope .. ' ' .. unit))\n",
      put: '',
    },
    {
      what: 'a new budget has nothing to spend',
      find: "redis.call('HSET', key, 'remaining', allocated, 'reserved', '0'",
      put: "redis.call('HSET', key, 'remaining', '0', 'reserved', '0'",
    },
    {
      what: 'the periods after the first are not planned',
      find: '    period_starts.set_boundaries(tag, key, unit, scope, birth.following)\n',
      put: '',
    },
  ],
  'lib/template_record.lua': [
    {
      what: 'a period of a fixed length begins at the epoch',
      find: 'ends = time.ms_text(now + tonumber(template.period_ms)) }',
      put: 'ends = time.ms_text(tonumber(template.period_ms)) }',
    },
    {
      what: 'the credits of the template do not count for the first request',
      find: 'f[1], f[4], f[13] = birth.plan.figures.remaining, birth.plan.figures.allocated,',
      put: 'local _ = birth.plan.figures.remaining,',
      tests: ['lua/template-credits'],
    },
    {
      what: 'a credit of the template ends at the epoch',
      find: 'ends = now + tonumber(lasts_ms)',
      put: 'ends = tonumber(lasts_ms)',
      tests: ['lua/template-credits'],
    },
    {
      what: 'a budget gets a credit of its template again',
      find: "    if not string.find(given or '', grant.id, 1, true) then",
      put: '    if true then',
      tests: ['lua/template-credits'],
    },
    {
      what: 'the policy of the template is not that of the budget',
      find: "{ 'commit_overage_policy', 'rollover_policy', 'metadata' }",
      put: "{ 'rollover_policy', 'metadata' }",
    },
    {
      what: 'the windows of the template do not limit the first request',
      find: 'birth.windows and window_record.windows_text(birth.windows) or false }',
      put: 'false }',
    },
    {
      what: 'the overdraft limit of the template does not count for the first request',
      find: "'0', '0', birth.allocated, '0', birth.overdraft_limit, '0', 'ACTIVE'",
      put: "'0', '0', birth.allocated, '0', '0', '0', 'ACTIVE'",
    },
  ],
  'governance/lib/template_index.lua': [
    {
      what: 'the youngest of equal templates wins',
      find: "others and others .. ' ' .. template_id or template_id)",
      put: "others and template_id .. ' ' .. others or template_id)",
    },
    {
      what: 'the end of a template ends all with its pattern',
      find: '    if id ~= template_id then',
      put: '    if false then',
    },
    {
      what: 'a tenant without templates keeps the mark of having some',
      find: "'templates', has_templates and revision or nil)",
      put: "'templates', revision)",
    },
    {
      what: 'templates are planned when all their boundaries have passed',
      find: 'local middle = instants[math.ceil(#instants / 2)]',
      put: 'local middle = instants[#instants]',
    },
  ],
};
