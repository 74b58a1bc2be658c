export type { Answer } from '../answers/index.js';
export { CallerFinder, PublicRateLimit } from './access.guard.js';
export { Access, type AccessRule, accessRuleOf, PublicAccess } from './access-rule.js';
export {
  type Confinement,
  OF_API_KEY,
  OF_CREDIT,
  OF_POLICY,
  OF_DEBIT,
  OF_RESERVATION,
  OF_SUBSCRIPTION,
  ownerOfApiKey,
  ownerOfSubscription,
  tenantsOf,
} from './confinement.js';
export { ErrorAnswers, ErrorFilter, UnexpectedErrors } from './errors/error.filter.js';
export { errorBody, refusalResponse, sendJson } from './errors/error-answer.js';
export { createFastify } from './fastify.js';
export { HttpModule } from './http.module.js';
export { inTurn, LimitedChange, LimitedQuery, onResponseEnd } from './limited-operations.js';
export { listen } from './listening.js';
export type { DocumentedWebhooks } from './openapi/complete.js';
export {
  Answers,
  AnswersNothing,
  BodySchema,
  ChargeOnExpiryHeader,
  ExplainHeader,
  IdempotencyKeyHeader,
  OpenApiDocument,
  Operation,
  QuerySchema,
  requireReservationId,
  ReservationId,
  SkipsDamaged,
  WaitHeader,
} from './openapi/document.js';
export { OperationAccess } from './operation-access.js';
export { ReadinessCheck } from './health.controller.js';
export { RouteTable } from './route-table.js';
export { AnswerAdapter, sendAnswer, sendSecret } from './send-answer.js';
export { isRead, refuseForged, SessionAccess } from './session-access.js';
export { auditTraceOf, onOneLine, originOf, type Sender, senderOf, traceRequests } from './tracing.js';
