export { PoliciesModule } from './policies.module.js';
export { PoliciesService } from './policies.service.js';
export type { Policy } from './policy.js';
