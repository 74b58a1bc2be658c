export { BudgetsService } from './budgets/budgets.service.js';
export { BudgetsModule, GovernanceModule } from './governance.module.js';
