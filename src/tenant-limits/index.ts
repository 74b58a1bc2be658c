export { TenantLimits } from './tenant-limits.js';
export { TenantLimitsModule } from './tenant-limits.module.js';
