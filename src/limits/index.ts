export { LimitsOpsModule } from './limits.controller.js';
export { type NearLimit, TenantLimits, TenantLimitsModule } from './limits.service.js';
