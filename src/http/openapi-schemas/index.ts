import { DELIVERY_SCHEMAS } from './deliveries.js';
import { GOVERNANCE_SCHEMAS } from './governance.js';
import { OPERATIONS_SCHEMAS } from './operations.js';
import type { AnswerSchema } from './parts.js';
import { RUNTIME_SCHEMAS } from './runtime.js';
import { SWEEPER_SCHEMAS } from './sweeper.js';
import { WEBHOOK_SCHEMAS } from './webhooks.js';

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
export type { AnswerSchema } from './parts.js';
