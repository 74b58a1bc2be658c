export { LimitsModule } from './limits.module.js';
export { type LimitExceeded, type NearLimit, TenantLimits } from './limits.service.js';
