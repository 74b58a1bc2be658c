export * from './validation/index.js';
export { ERROR_CATALOGUE, type CatalogueEntry } from './error-catalogue.js';
export { sendJson } from './error-answer.js';
export { HttpModule } from './http.module.js';
export { parseJson, stringifyJson } from './json.js';
export { BodySchema, QuerySchema } from './openapi.js';
export type { RequestTrace } from './tracing.js';
