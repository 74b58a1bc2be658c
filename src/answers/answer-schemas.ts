import { GOVERNANCE_SCHEMAS } from './governance-schemas.js';
import { OPERATIONS_SCHEMAS, SWEEPER_SCHEMAS } from './operations-schemas.js';
import { OPERATOR_SCHEMAS } from './operator-schemas.js';
import type { AnswerSchema, Described, Named } from './parts.js';
import { ACTION_SCHEMAS, BATCH_SCHEMAS, RUNTIME_SCHEMAS } from './runtime-schemas.js';
import { DELIVERY_SCHEMAS, WEBHOOK_SCHEMAS } from './webhook-schemas.js';

const ALL = {
  ...RUNTIME_SCHEMAS,
  ...BATCH_SCHEMAS,
  ...GOVERNANCE_SCHEMAS,
  ...ACTION_SCHEMAS,
  ...SWEEPER_SCHEMAS,
  ...OPERATIONS_SCHEMAS,
  ...OPERATOR_SCHEMAS,
  ...WEBHOOK_SCHEMAS,
  ...DELIVERY_SCHEMAS,
};

/** The bodies that operations answer with; an operation names its own with `@Answers`. */
export type SchemaName = keyof typeof ALL;
export const ANSWER_SCHEMAS: Readonly<Record<SchemaName, AnswerSchema>> = ALL;

type Resolved<T> =
  T extends Named<infer Name>
    ? Name extends SchemaName
      ? Answer<Name>
      : unknown
    : T extends readonly (infer Item)[]
      ? readonly Resolved<Item>[]
      : T extends object
        ? { readonly [K in keyof T]: Resolved<T[K]> }
        : T;

/** The type of a body that operations answer with, from its schema. */
export type Answer<Name extends SchemaName> = Resolved<Described<(typeof ALL)[Name]>>;
