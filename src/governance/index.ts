export { KnownKinds, KnownKindsModule } from './action-kinds/known-kinds.js';
export { BudgetsService } from './budgets/budgets.service.js';
export { BudgetRollovers } from './budgets/budget-rollovers.js';
export { BudgetsModule, GovernanceModule, TenantsModule } from './governance.module.js';
