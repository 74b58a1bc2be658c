export { AuditLogModule } from './audit-log.module.js';
export { AuditLogService } from './audit-log.service.js';
export type { AuditLogEntry } from './audit-entry.js';
