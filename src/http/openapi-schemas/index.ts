import { GOVERNANCE_SCHEMAS } from './governance.js';
import type { AnswerSchema } from './parts.js';
import { RUNTIME_SCHEMAS } from './runtime.js';

const ALL = { ...RUNTIME_SCHEMAS, ...GOVERNANCE_SCHEMAS };

/** The bodies that operations answer with; an operation names its own with `@Answers`. */
export type SchemaName = keyof typeof ALL;
export const ANSWER_SCHEMAS: Readonly<Record<SchemaName, AnswerSchema>> = ALL;
export type { AnswerSchema } from './parts.js';
