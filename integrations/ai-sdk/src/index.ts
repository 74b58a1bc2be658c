export { BudgetError, type BudgetErrorReason } from './errors.js';
export type { HoldfastOptions, Subject } from './client.js';
export { type Price, TOKENS } from './cost.js';
export { type BudgetOptions, type BudgetedCall, withBudget } from './middleware.js';
