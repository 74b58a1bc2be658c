import { parseAmount } from './amount.js';

/** One budget's figures at one instant; `remaining = allocated - spent - reserved - debt` holds in each. */
export interface BudgetFigures {
  readonly remaining: bigint;
  readonly reserved: bigint;
  readonly spent: bigint;
  readonly allocated: bigint;
  readonly debt: bigint;
  readonly overdraftLimit: bigint;
  readonly isOverLimit: boolean;
}

/** Reads the scripts' form of a balance, `remaining,reserved,spent,allocated,debt,overdraft_limit,is_over_limit`. */
export function parseFigures(text: string): BudgetFigures {
  const parts = text.split(',');
  if (parts.length !== 7) {
    throw new Error(`not a balance: ${text}`);
  }
  return {
    remaining: parseAmount(parts[0]),
    reserved: parseAmount(parts[1]),
    spent: parseAmount(parts[2]),
    allocated: parseAmount(parts[3]),
    debt: parseAmount(parts[4]),
    overdraftLimit: parseAmount(parts[5]),
    isOverLimit: parts[6] === '1',
  };
}
