export { AuditModule } from './audit.module.js';
export { RetentionJanitor } from './retention.janitor.js';
