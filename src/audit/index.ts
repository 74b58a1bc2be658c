export { AuditLogModule, AuditTrailModule } from './audit-log/audit-log.module.js';
export { AuditTrail } from './audit-log/audit-trail.js';
export { AuditModule } from './audit.module.js';
