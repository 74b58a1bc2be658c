import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';
import { isOver, smaller, type ModelBudget } from './model-records.js';

export const FUNDINGS = ['CREDIT', 'DEBIT', 'RESET', 'RESET_SPENT', 'REPAY_DEBT'] as const;
export type Funding = (typeof FUNDINGS)[number];

export interface FundRequest {
  readonly operation: Funding;
  readonly amount: bigint;
  /** Only for RESET_SPENT. */
  readonly spent: bigint | undefined;
}

const EVENTS: Readonly<Record<Funding, string>> = {
  CREDIT: 'budget.funded',
  DEBIT: 'budget.debited',
  RESET: 'budget.reset',
  RESET_SPENT: 'budget.reset_spent',
  REPAY_DEBT: 'budget.debt_repaid',
};

/**
 * The three figures after the operation. CREDIT turns the debt that it repays into spent funds; REPAY_DEBT
 * forgives it.
 */
function figuresAfter(
  budget: ModelBudget,
  { operation, amount, spent }: FundRequest,
): [bigint, bigint, bigint] {
  const { allocated, debt } = budget;
  const repaid = smaller(debt, amount);
  switch (operation) {
    case 'CREDIT':
      return [allocated + amount, budget.spent + repaid, debt - repaid];
    case 'DEBIT':
      return [allocated - amount, budget.spent, debt];
    case 'RESET':
      return [amount, budget.spent, debt];
    case 'RESET_SPENT':
      return [amount, spent ?? 0n, debt];
    case 'REPAY_DEBT':
      return [allocated + amount - repaid, budget.spent, debt - repaid];
  }
}

/**
 * Changes the funds of an active budget. Returns the reply without its time, and the events; or returns the
 * refusal and changes nothing.
 */
export function fundBudget(
  budget: ModelBudget,
  request: FundRequest,
  reserved: bigint,
): { readonly reply: string[]; readonly events: string[] } {
  const { operation, amount } = request;
  const remaining = budget.allocated - budget.spent - reserved - budget.debt;
  if (operation === 'DEBIT' && remaining < amount) {
    return { reply: ['BUDGET_EXCEEDED'], events: [] };
  }
  const [allocated, spent, debt] = figuresAfter(budget, request);
  const left = allocated - spent - reserved - debt;
  if (allocated > INT64_MAX || spent > INT64_MAX || left < INT64_MIN) {
    return { reply: ['INT64_OVERFLOW'], events: [] };
  }
  const [wasOver, former] = [isOver(budget), { ...budget }];
  Object.assign(budget, { allocated, spent, debt });
  budget.marked &&= left <= 0n && left <= remaining;
  budget.marked = isOver(budget);
  if (budget.period !== undefined && (operation === 'RESET' || operation === 'RESET_SPENT')) {
    budget.period = { ...budget.period, allocation: allocated };
  }
  const owner = budget.scope.split('/')[0]?.slice('tenant:'.length) as string;
  const events = [`${EVENTS[operation]} ${owner} ${budget.scope} -`];
  if (wasOver !== isOver(budget)) {
    events.push(`budget.over_limit_${isOver(budget) ? 'entered' : 'exited'} ${owner} ${budget.scope} -`);
  }
  if (remaining > 0n && left <= 0n) {
    events.push(`budget.exhausted ${owner} ${budget.scope} -`);
  }
  const figures = [former.allocated, allocated, remaining, left, former.debt, debt, former.spent, spent];
  return { reply: ['FUNDED', 'fresh', ...figures.map(String)], events };
}
