export * from './validation/index.js';
export {
  decodeCursor,
  encodeCursor,
  sortOrderOf,
  type Position,
  type SortOrder,
  type SortValue,
} from './cursor.js';
export { ERROR_CATALOGUE, type CatalogueEntry } from './error-catalogue.js';
export { sendJson, sendSecret } from './error-answer.js';
export { HttpModule } from './http.module.js';
export { parseJson, stringifyJson } from './json.js';
export { Answers, AnswersNothing, BodySchema, IdempotencyKeyHeader, QuerySchema } from './openapi.js';
export { ANSWER_SCHEMAS, type SchemaName } from './openapi-schemas/index.js';
export { ReservationId } from './path-id.js';
export { PageSelection, type PageOrder } from './page-selection.js';
export { auditTraceOf, onOneLine, senderOf, type Sender } from './sender.js';
export type { RequestTrace } from './tracing.js';
export { whenOver } from './when-over.js';
