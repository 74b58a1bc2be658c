export type { BudgetLedger } from './budget.js';
export { BudgetsModule } from './budgets.module.js';
export { BudgetsService } from './budgets.service.js';
export { FundingService, type Funding } from './funding.service.js';
