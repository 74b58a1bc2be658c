export { KnownKinds, KnownKindsModule } from './action-kinds/known-kinds.js';
export { BudgetsService } from './budgets/budgets.service.js';
export { BudgetsModule, GovernanceModule } from './governance.module.js';
