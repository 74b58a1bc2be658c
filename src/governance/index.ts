export { KnownKinds, KnownKindsModule } from './action-kinds/known-kinds.js';
export { BudgetsService } from './budgets/budgets.service.js';
export { PeriodPlans } from './budgets/period-plans.js';
export { BudgetsModule, GovernanceModule, TenantsModule } from './governance.module.js';
export { TenantCreateDto } from './tenants/tenant.dto.js';
export { type Tenant, TenantsService } from './tenants/tenants.service.js';
