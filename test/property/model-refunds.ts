import { isOver, type ModelBudget, smaller } from './model-records.js';

/** What was charged to budgets, by a hold or a direct debit, and what of that came back. */
export interface ModelCharge {
  readonly id: string;
  readonly tenant: string;
  readonly leaf: string;
  readonly unit: string;
  readonly budgets: readonly ModelBudget[];
  charged?: bigint;
  chargedAt?: number;
  refunded?: bigint;
  /** Of a hold: when a long play first noticed that it had ended, or was refunded last. */
  seenEndedAt?: number;
}

export interface RefundRequest {
  readonly tenant: string;
  readonly id: string;
  readonly key: string;
  readonly unit: string;
  readonly amount: bigint;
}

/** Takes the amount back out of a budget. Returns by how much its remaining amount grows. */
export function takeOut(budget: ModelBudget, amount: bigint, chargedAt: number): bigint {
  const repaid = smaller(budget.debt, amount);
  const hasEnded = budget.period !== undefined && budget.period.starts > chargedAt;
  const unspent = hasEnded ? 0n : smaller(budget.spent, amount - repaid);
  const returned = repaid + unspent;
  budget.debt -= repaid;
  budget.spent -= unspent;
  budget.charged = (budget.charged ?? 0n) - amount;
  budget.windows &&= budget.windows.map((window) =>
    window.starts > chargedAt ? window : { ...window, spent: window.spent - smaller(window.spent, amount) },
  );
  if (returned > 0n) {
    // Whatever comes back clears the mark of a capped charge, but not one that debt makes.
    budget.marked = false;
    budget.marked = isOver(budget);
  }
  return returned;
}
