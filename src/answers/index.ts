export { type Answer, ANSWER_SCHEMAS, type SchemaName } from './answer-schemas.js';
export { type AnswerSchema, FLAG, FREE, INT64, list, ref, TEXT, TIME } from './parts.js';
