export { AuditedRequests } from './audit-log/audited-requests.js';
export { auditEntryOf, type AuditLog, LOGS } from './audit-log/audit-log-rows.js';
export { AuditModule } from './audit.module.js';
