import type { Schema } from '../wire/index.js';

declare const IS: unique symbol;

/** A response schema: what requests use, and references to other schemas. `T` is the type of what it describes. */
export type AnswerSchema<T = unknown> = (
  | (Omit<Schema, 'properties' | 'items' | 'anyOf' | 'additionalProperties'> & {
      properties?: Readonly<Record<string, AnswerSchema>>;
      items?: AnswerSchema;
      anyOf?: readonly AnswerSchema[];
      additionalProperties?: boolean | AnswerSchema;
    })
  | { readonly $ref: string; readonly description?: string }
) & { readonly [IS]?: T };

type Members = Readonly<Record<string, AnswerSchema>>;

/** What another schema describes; `Answer` looks it up. */
export interface Named<Name extends string> {
  readonly [IS]: Name;
}

/** Integers beyond 2^53 are `bigint`. */
type Integer = number | bigint;

interface Primitives {
  readonly string: string;
  readonly integer: number;
  readonly number: number;
  readonly boolean: boolean;
}

/** The type of what a schema describes, with names in place of other schemas. `unknown` where the schema leaves it open. */
export type Described<S> = typeof IS extends keyof S
  ? Exclude<S[typeof IS], undefined>
  : S extends { readonly type: infer Type extends keyof Primitives }
    ? Primitives[Type]
    : unknown;

type Always<M> = string extends keyof M ? object : { readonly [K in keyof M]: Described<M[K]> };
type Sometimes<M> = string extends keyof M
  ? unknown
  : { readonly [K in keyof M]?: Described<M[K]> | undefined };

/** An object with these members and no others. The members in `always` are required. */
export function object<A extends Members, S extends Members = Readonly<Record<never, never>>>(
  always: A,
  sometimes?: S,
): AnswerSchema<Always<A> & Sometimes<S>> {
  const required = Object.keys(always);
  return {
    type: 'object',
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
    properties: { ...always, ...sometimes },
  };
}

export const ref = <Name extends string>(name: Name): AnswerSchema<Named<Name>> => ({
  $ref: `#/components/schemas/${name}`,
});
export const list = <S extends AnswerSchema>(items: S): AnswerSchema<readonly Described<S>[]> => ({
  type: 'array',
  items,
});
export const oneOf = <const V extends string>(...values: readonly V[]): AnswerSchema<V> => ({
  type: 'string',
  enum: values,
});
/** One of these, as a record keeps it. */
export const kept = (...values: readonly string[]): AnswerSchema<string> => oneOf(...values);
export const mapOf = <S extends AnswerSchema>(
  values: S,
): AnswerSchema<Readonly<Record<string, Described<S>>>> => ({
  type: 'object',
  additionalProperties: values,
});

export const TEXT: AnswerSchema<string> = { type: 'string' };
export const FLAG: AnswerSchema<boolean> = { type: 'boolean' };
export const COUNT: AnswerSchema<number> = { type: 'integer', minimum: 0 };
export const INT64: AnswerSchema<Integer> = { type: 'integer', format: 'int64' };
export const TIME: AnswerSchema<string> = { type: 'string', format: 'date-time' };
export const COUNT64: AnswerSchema<Integer> = { ...INT64, minimum: 0 };
/** Times of the runtime plane and spans of time, both in milliseconds. Unlike amounts, a double has them exactly. */
export const MILLISECONDS: AnswerSchema<number> = {
  type: 'integer',
  format: 'int64',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
};
/** Whatever the client stored with a record. */
export const FREE: AnswerSchema<Readonly<Record<string, unknown>>> = {
  type: 'object',
  additionalProperties: true,
};
export const TRACE_ID: AnswerSchema<string> = { type: 'string', pattern: '^[0-9a-f]{32}$' };

interface BulkAction<Action extends string> {
  readonly action: Action;
  readonly total_matched: number;
  readonly succeeded: readonly Named<'BulkActionRowOutcome'>[];
  readonly failed: readonly Named<'BulkActionRowOutcome'>[];
  readonly skipped: readonly Named<'BulkActionRowOutcome'>[];
  readonly idempotency_key: string;
}

/** The answer to a bulk action, by the words that `action` may have. */
export const bulkResponse = <const A extends string>(
  ...actions: readonly A[]
): AnswerSchema<BulkAction<A>> => {
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
export const PAGE = {
  next_cursor: {
    type: 'string',
    description: 'Continues the same list; there exactly when has_more is true.',
  },
} as const;
