import { invalidField, isWithin, scopePrefixOf } from '../../ledger/index.js';
import { matchesSearch } from '../../wire/index.js';
import type { BudgetListQueryDto } from './budget.dto.js';
import { type BudgetLedger, utilizationOf } from './budget.js';

/** The filters that lists and bulk actions have in common. */
type BudgetFilter = Omit<BudgetListQueryDto, 'cursor' | 'limit' | 'sort_by' | 'sort_dir'>;

/** @throws Refusal INVALID_REQUEST */
export function requireUtilizationRange({
  utilization_min: min = 0,
  utilization_max: max = 1,
}: BudgetFilter): void {
  if (min > max) {
    throw invalidField('utilization_min', 'utilization_min must not exceed utilization_max');
  }
}

/** What is known of a budget even if its figures cannot be read. */
export interface BudgetFace {
  readonly tenant_id: string;
  readonly scope: string;
  readonly unit: string;
  readonly status: string;
}

export interface BudgetMatcher {
  /** Whether a budget matches the whole filter. An absent part matches everything. */
  readonly matches: (budget: BudgetLedger) => boolean;
  /** Whether it matches all parts of the filter that do not depend on its figures. */
  readonly mayMatch: (budget: BudgetFace) => boolean;
}

export function budgetMatcher(query: BudgetFilter): BudgetMatcher {
  const {
    unit,
    status,
    over_limit: overLimit,
    has_debt: hasDebt,
    utilization_min: min = 0,
    utilization_max: max,
    search,
  } = query;
  const above = scopePrefixOf(query.scope_prefix);
  const mayMatch = (budget: BudgetFace): boolean =>
    isWithin(budget.scope, above) &&
    (unit === undefined || budget.unit === unit) &&
    (status === undefined || budget.status === status) &&
    matchesSearch(search, budget.tenant_id, budget.scope);
  const matches = (budget: BudgetLedger): boolean => {
    const utilization = utilizationOf(budget);
    return (
      mayMatch(budget) &&
      (overLimit === undefined || budget.is_over_limit === overLimit) &&
      (hasDebt === undefined || budget.debt.amount > 0n === hasDebt) &&
      utilization >= min &&
      (max === undefined || utilization <= max)
    );
  };
  return { matches, mayMatch };
}
