import { parseAmount, type Unit } from '../../ledger/index.js';
import { fieldOf, optionalText, timeOf, type Fields } from '../listing/index.js';
import { BUDGET_STATUSES, type BudgetSortKey, type BudgetStatus } from './budget.dto.js';

export interface UnitAmount {
  readonly unit: Unit;
  readonly amount: bigint;
}

/** BudgetLedger of cycles-governance-admin-v0.1.25. */
export interface BudgetLedger {
  readonly ledger_id: string;
  readonly tenant_id: string;
  readonly scope: string;
  readonly scope_path: string;
  readonly unit: Unit;
  readonly allocated: UnitAmount;
  readonly remaining: UnitAmount;
  readonly reserved: UnitAmount;
  readonly spent: UnitAmount;
  readonly debt: UnitAmount;
  readonly overdraft_limit: UnitAmount;
  readonly is_over_limit: boolean;
  readonly commit_overage_policy?: string;
  readonly status: BudgetStatus;
  readonly rollover_policy: 'NONE';
  readonly created_at: string;
  readonly updated_at: string;
}

/** @throws Error when Holdfast did not write the record so. */
export function budgetOf(fields: Fields, scope: string, unit: Unit): BudgetLedger {
  const amount = (name: string): UnitAmount => ({ unit, amount: parseAmount(fields.get(name)) });
  const status = BUDGET_STATUSES.find((known) => known === fields.get('status'));
  if (status === undefined) {
    throw new Error(`corrupt budget record of ${scope} ${unit}: its status is ${fields.get('status')}`);
  }
  const debt = amount('debt');
  const overdraftLimit = amount('overdraft_limit');
  return {
    ledger_id: fieldOf(fields, 'ledger_id'),
    tenant_id: fieldOf(fields, 'tenant_id'),
    scope,
    scope_path: scope,
    unit,
    allocated: amount('allocated'),
    remaining: amount('remaining'),
    reserved: amount('reserved'),
    spent: amount('spent'),
    debt,
    overdraft_limit: overdraftLimit,
    // As the scripts judge it: a capped charge marks the scope, and so does debt above a limit that permits some.
    is_over_limit:
      fields.get('is_over_limit') === '1' ||
      (overdraftLimit.amount > 0n && debt.amount > overdraftLimit.amount),
    ...optionalText(fields, 'commit_overage_policy'),
    status,
    rollover_policy: 'NONE',
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}

/** spent / allocated; 0 when nothing is allocated: listBudgets of cycles-governance-admin-v0.1.25. */
export function utilizationOf({ spent, allocated }: BudgetLedger): number {
  return allocated.amount === 0n ? 0 : Number(spent.amount) / Number(allocated.amount);
}

export function sortValueOf(budget: BudgetLedger, key: BudgetSortKey): string | number | bigint {
  switch (key) {
    case 'utilization':
      return utilizationOf(budget);
    case 'debt':
      return budget.debt.amount;
    case 'commit_overage_policy':
      return budget.commit_overage_policy ?? '';
    default:
      return budget[key];
  }
}
