export { TenantLimits, type NearLimit } from './tenant-limits.js';
export { TenantLimitsModule } from './tenant-limits.module.js';
