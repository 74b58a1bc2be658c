import { GOVERNANCE_SCHEMAS } from './governance-schemas.js';
import { OPERATIONS_SCHEMAS, SWEEPER_SCHEMAS } from './operations-schemas.js';
import type { AnswerSchema } from './parts.js';
import { RUNTIME_SCHEMAS } from './runtime-schemas.js';
import { DELIVERY_SCHEMAS, WEBHOOK_SCHEMAS } from './webhook-schemas.js';

const ALL = {
  ...RUNTIME_SCHEMAS,
  ...GOVERNANCE_SCHEMAS,
  ...SWEEPER_SCHEMAS,
  ...OPERATIONS_SCHEMAS,
  ...WEBHOOK_SCHEMAS,
  ...DELIVERY_SCHEMAS,
};

/** The bodies that operations answer with; an operation names its own with `@Answers`. */
export type SchemaName = keyof typeof ALL;
export const ANSWER_SCHEMAS: Readonly<Record<SchemaName, AnswerSchema>> = ALL;
