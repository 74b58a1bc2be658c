export { KnownKinds } from './action-kinds/known-kinds.js';
export { BudgetsService } from './budgets/budgets.service.js';
export { type Planned, TemplatePlans } from './budget-templates/template-plans.js';
export { BudgetRollovers } from './budgets/budget-rollovers.js';
export { isTimeZone, type LocalClock, localClock } from './budgets/time-zone.js';
export { GovernanceModule } from './governance.module.js';
