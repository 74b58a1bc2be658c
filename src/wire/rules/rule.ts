/** A value that is too large: the bytes of its JSON, and how many are allowed. */
export interface Oversize {
  readonly size_bytes: number;
  readonly limit_bytes: number;
}

/** The part of JSON Schema that request rules need; `bigint` bounds are printed as plain digits. */
export interface Schema {
  type?: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array';
  format?: string;
  enum?: readonly unknown[];
  pattern?: string;
  minimum?: number | bigint;
  maximum?: number | bigint;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  items?: Schema;
  anyOf?: readonly Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  maxProperties?: number;
  description?: string;
  /** Null is allowed too. @nestjs/swagger turns it into a type of OpenAPI 3.1. */
  nullable?: boolean;
}

/**
 * One rule on one value. The same object serves class-validator (through `Obeys`), the compiled predicate and
 * the OpenAPI schema, so the three cannot disagree.
 */
export interface Rule {
  readonly name: string;
  /** Must be pure and must not throw, whatever the value. */
  readonly test: (value: unknown) => boolean;
  /** What the rule adds to the field's schema. The error message describes it. */
  readonly schema: Schema;
  /** Describes what the schema cannot express; follows the description of the schema in the message. */
  readonly phrase?: string;
  /** The size of a value that this rule refuses as too large, for the error message. */
  readonly oversize?: (value: unknown) => Oversize | undefined;
}

/** A message lists at most so many values. */
const MOST_LISTED = 20;

/** Describes what a schema allows: "an integer from 0 to 60000", "a string of 1 to 256 characters". */
export function describeSchema(schema: Schema): string {
  if (schema.enum !== undefined) {
    return schema.enum.length > MOST_LISTED
      ? `one of the ${schema.enum.length} values that /openapi.json lists`
      : `one of ${schema.enum.map(String).join(', ')}`;
  }
  switch (schema.type) {
    case 'string':
      return `a string${characters(schema)}${schema.pattern === undefined ? '' : ` matching ${schema.pattern}`}`;
    case 'integer':
      return `an integer${bounds(schema)}`;
    case 'number':
      return `a number${bounds(schema)}`;
    case 'boolean':
      return 'true or false';
    case 'array':
      return `an array${items(schema)}`;
    case 'object':
      return describeObject(schema);
    default:
      return 'a JSON value';
  }
}

function characters({ minLength, maxLength }: Schema): string {
  if (minLength !== undefined && maxLength !== undefined) {
    return ` of ${minLength} to ${maxLength} characters`;
  }
  if (maxLength !== undefined) {
    return ` of at most ${maxLength} characters`;
  }
  return minLength === undefined ? '' : ` of at least ${minLength} character${minLength === 1 ? '' : 's'}`;
}

function bounds({ minimum, maximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) {
    return ` from ${minimum} to ${maximum}`;
  }
  if (maximum !== undefined) {
    return ` of at most ${maximum}`;
  }
  return minimum === undefined ? '' : ` of at least ${minimum}`;
}

function items(schema: Schema): string {
  const { minItems, maxItems } = schema;
  let count = '';
  if (minItems !== undefined && maxItems !== undefined) {
    count = ` of ${minItems} to ${maxItems} items`;
  } else if (maxItems !== undefined) {
    count = ` of at most ${maxItems} items`;
  } else if (minItems !== undefined) {
    count = ` of at least ${minItems} item${minItems === 1 ? '' : 's'}`;
  }
  const unique = schema.uniqueItems === true ? ' without repeats' : '';
  return `${count}${unique}${schema.items === undefined ? '' : `, each ${describeSchema(schema.items)}`}`;
}

function describeObject(schema: Schema): string {
  const entries = schema.maxProperties === undefined ? '' : ` of at most ${schema.maxProperties} entries`;
  const values = schema.additionalProperties;
  return typeof values === 'object'
    ? `an object${entries}, each value ${describeSchema(values)}`
    : `an object${entries}`;
}
