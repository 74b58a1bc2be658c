import type { Schema } from '../../wire/index.js';

/** A response schema: what requests use, and references to other schemas. */
export type AnswerSchema =
  | (Omit<Schema, 'properties' | 'items' | 'anyOf' | 'additionalProperties'> & {
      properties?: Readonly<Record<string, AnswerSchema>>;
      items?: AnswerSchema;
      anyOf?: readonly AnswerSchema[];
      additionalProperties?: boolean | AnswerSchema;
    })
  | { readonly $ref: string; readonly description?: string };

type Members = Readonly<Record<string, AnswerSchema>>;

/** An object with these members and no others. The members in `always` are required. */
export function object(always: Members, sometimes: Members = {}): AnswerSchema {
  const required = Object.keys(always);
  return {
    type: 'object',
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
    properties: { ...always, ...sometimes },
  };
}

export const ref = (name: string): AnswerSchema => ({ $ref: `#/components/schemas/${name}` });
export const list = (items: AnswerSchema): AnswerSchema => ({ type: 'array', items });
export const oneOf = (...values: readonly string[]): AnswerSchema => ({ type: 'string', enum: values });
export const mapOf = (values: AnswerSchema): AnswerSchema => ({
  type: 'object',
  additionalProperties: values,
});

export const TEXT: AnswerSchema = { type: 'string' };
export const FLAG: AnswerSchema = { type: 'boolean' };
export const COUNT: AnswerSchema = { type: 'integer', minimum: 0 };
export const INT64: AnswerSchema = { type: 'integer', format: 'int64' };
export const TIME: AnswerSchema = { type: 'string', format: 'date-time' };
export const COUNT64: AnswerSchema = { ...INT64, minimum: 0 };
/** Times of the runtime plane and spans of time, both in milliseconds. Unlike amounts, a double has them exactly. */
export const MILLISECONDS: AnswerSchema = { ...COUNT64, maximum: Number.MAX_SAFE_INTEGER };
/** Whatever the client stored with a record. */
export const FREE: AnswerSchema = { type: 'object', additionalProperties: true };
export const TRACE_ID: AnswerSchema = { type: 'string', pattern: '^[0-9a-f]{32}$' };

/** The answer to a bulk action, by the words that `action` may have. */
export const bulkResponse = (...actions: readonly string[]): AnswerSchema => {
  const rows = list(ref('BulkActionRowOutcome'));
  return object({
    action: oneOf(...actions),
    total_matched: COUNT,
    succeeded: rows,
    failed: rows,
    skipped: rows,
    idempotency_key: TEXT,
  });
};

/** How every list continues. */
export const PAGE: Members = {
  next_cursor: {
    type: 'string',
    description: 'Continues the same list; there exactly when has_more is true.',
  },
};
