export { LimitsModule } from './limits.module.js';
export { type NearLimit, TenantLimits } from './limits.service.js';
