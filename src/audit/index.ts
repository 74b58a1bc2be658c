export { AuditModule } from './audit.module.js';
export { LogJanitor } from './log.janitor.js';
export { RetentionJanitor } from './retention.janitor.js';
