export { Access, type AccessRule, accessRuleOf, CallerFinder } from './access/access.guard.js';
export { AuthModule } from './access/auth.module.js';
export { sendJson, sendSecret } from './errors/error-answer.js';
export { createFastify } from './fastify.js';
export { HealthModule } from './health.module.js';
export { HttpModule } from './http.module.js';
export { LimitedQuery, whenOver } from './limited-query.js';
export { listen, type Listeners } from './listening.js';
export {
  Answers,
  AnswersNothing,
  BodySchema,
  IdempotencyKeyHeader,
  OpenApiDocument,
  QuerySchema,
} from './openapi/document.js';
export { ReservationId } from './path-id.js';
export type { RouteTable } from './route-table.js';
export { auditTraceOf, onOneLine, originOf, type Sender, senderOf } from './tracing.js';
