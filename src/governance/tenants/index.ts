export type { Tenant } from './tenant.js';
export { TenantsModule } from './tenants.module.js';
export { TenantsService } from './tenants.service.js';
