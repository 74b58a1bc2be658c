export { AuditTrail } from './audit-log/audit-trail.js';
export { AuditModule } from './audit.module.js';
