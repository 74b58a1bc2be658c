export { BudgetError, type BudgetErrorReason } from './errors.js';
export type { HoldfastOptions } from './client.js';
export { type Price, TOKENS } from './cost.js';
export { withBudget } from './middleware.js';
export type { BudgetedCall, BudgetOptions } from './options.js';
export { segment, type Subject } from './subject.js';
