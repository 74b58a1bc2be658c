export { AuditedRequests } from './audit-log/audited-requests.js';
export { AuditModule } from './audit.module.js';
