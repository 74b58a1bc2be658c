export { AuditTrail } from './audit-log/audit-trail.js';
export { AuditLogModule, AuditModule, AuditTrailModule } from './audit.module.js';
