export * from './api-keys/index.js';
export * from './budgets/index.js';
export { GovernanceModule } from './governance.module.js';
export * from './policies/index.js';
export * from './tenants/index.js';
