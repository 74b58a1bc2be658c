export { AuditTrail } from './audit-trail.js';
export { AuditTrailModule } from './audit-trail.module.js';
export { MAX_WAITING } from './audit-writer.js';
