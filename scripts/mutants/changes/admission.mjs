/** Of what reserves, decisions and direct debits share. @type {import('../list.mjs').Mutations} */
export const ADMISSION = {
  'ledger/lib/admission.lua': [
    {
      what: 'the root decides the inherited overage policy',
      find: '    inherited = budget.commit_overage_policy or inherited',
      put: '    inherited = inherited or budget.commit_overage_policy',
    },
    {
      what: 'a suspended tenant may reserve',
      find: "  if tenant and tenant.status ~= 'ACTIVE' then",
      put: "  if tenant and tenant.status == 'CLOSED' then",
    },
    {
      what: 'a closed tenant may reserve',
      find: "  if tenant and tenant.status ~= 'ACTIVE' then",
      put: "  if tenant and tenant.status == 'SUSPENDED' then",
    },
    {
      what: 'the amount is not compared with what remains',
      find: 'funds.hold_refusal(budgets, request.amount, now)',
      put: "funds.hold_refusal(budgets, '0', now)",
    },
    {
      what: 'the limits on what a tenant owns are not checked',
      find: '  refusal, request.stored_after = owned_counts',
      put: '  local _; _, request.stored_after = owned_counts',
    },
    {
      what: 'the rate of the governing policy is not checked',
      find: "    refusal = policy_rate.rate_refusal(tag, policy, 'reservations', now, group.set and group.set.rates[policy.id])",
      put: '',
    },
    {
      what: 'overdue holds are not reclaimed before a denial',
      find: "  return refusal[1] == 'BUDGET_EXCEEDED' or refusal[1] == 'KEPT_FOR_WAITER' or",
      put: '  return',
    },
    {
      what: 'REJECT charges what does not remain',
      find: "return overage_policy == 'REJECT' and short or nil, nil, short",
      put: 'return nil, nil, short',
    },
    {
      what: 'a frozen budget is charged',
      find: '    refusal = funds.stopped_budget(budgets)\n',
      put: '    refusal = nil\n',
    },
  ],
  'ledger/lib/funds.lua': [
    {
      what: 'a budget over its limit admits',
      find: '    if budget_figures.budget_over_limit(budget) then',
      put: '    if false then',
    },
    {
      what: 'debt without an overdraft limit admits',
      find: '    if is_in_debt(budget) then',
      put: '    if false then',
    },
    {
      what: 'what remains must be more than the amount',
      find: '    if int64.less(budget.remaining_figure, wanted) then',
      put: '    if not int64.less(wanted, budget.remaining_figure) then',
    },
    {
      what: 'the short way takes a budget that is not active',
      find: "budget.status ~= 'ACTIVE' or budget.remaining_figure < wanted then",
      put: 'budget.remaining_figure < wanted then',
    },
    {
      what: 'the short way takes one unit more than remains',
      find: 'budget.remaining_figure < wanted then',
      put: 'budget.remaining_figure + 1 < wanted then',
    },
  ],
};
