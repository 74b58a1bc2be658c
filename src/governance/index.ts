export * from './api-keys/index.js';
export * from './budgets/index.js';
export { GovernanceModule } from './governance.module.js';
export { originOf, type Origin } from './origin.js';
export * from './policies/index.js';
export { TENANT_ID_PATTERN } from './tenant-id.js';
export * from './tenants/index.js';
