import { applyDecorators } from '@nestjs/common';
import { Type } from 'class-transformer';
import {
  IsArray,
  IsObject,
  ValidateBy,
  ValidateIf,
  ValidateNested,
  type ValidationOptions,
} from 'class-validator';
import { INT64_MAX, Refusal } from '../../ledger/index.js';
import { isPlainObject, stringifyJson } from '../exact-json.js';
import { describeSchema, type Oversize, type Rule } from './rule.js';

/** Maximum nesting of free JSON. Deeper values could exhaust the stack of recursive readers. */
export const FREE_OBJECT_MAX_DEPTH = 32;

/**
 * Largest free object, such as metadata, in bytes of its JSON: many times what clients send, and little enough that a page of records
 * stays small.
 */
export const FREE_OBJECT_MAX_BYTES = 16_384;

/** Several rules ask for the size of the same value, and measuring a large one takes time. Requests are not changed while checked. */
const sizes = new WeakMap<object, number>();

/**
 * The size of a value that is too large, in bytes of its JSON in UTF-8, as it is stored. Undefined within the limit, and for a value
 * that nests too deeply to be measured, which another rule refuses.
 */
export function oversizeOf(value: unknown, limit: number): Oversize | undefined {
  if (typeof value !== 'object' || value === null || !depthWithin(value, FREE_OBJECT_MAX_DEPTH)) {
    return undefined;
  }
  const size = sizes.get(value) ?? Buffer.byteLength(stringifyJson(value));
  sizes.set(value, size);
  return size > limit ? { size_bytes: size, limit_bytes: limit } : undefined;
}

export const oversizeMessage = (path: string, { size_bytes, limit_bytes }: Oversize): string =>
  `${path} has ${size_bytes} bytes as JSON; at most ${limit_bytes} are allowed`;

/**
 * Checks a value that is merged from a request and a stored record, which the rules of the request cannot check.
 * @throws Refusal INVALID_REQUEST if it is larger than FREE_OBJECT_MAX_BYTES.
 */
export function requireFreeObjectSize(field: string, value: object): void {
  const oversize = oversizeOf(value, FREE_OBJECT_MAX_BYTES);
  if (oversize !== undefined) {
    throw new Refusal('INVALID_REQUEST', oversizeMessage(field, oversize), { field, ...oversize });
  }
}

export function depthWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) {
    return true;
  }
  if (levels === 0) {
    return false;
  }
  for (const key in value) {
    if (!depthWithin((value as Record<string, unknown>)[key], levels - 1)) {
      return false;
    }
  }
  return true;
}

/** The condition of all `Optional` fields; `readRules` recognises it by identity. */
export const isPresent = (_object: unknown, value: unknown): boolean => value !== undefined;

/** The field may be absent, and obeys the rule if it is there. Unlike IsOptional of class-validator, it refuses `null`. */
export function Optional(rule?: PropertyDecorator): PropertyDecorator {
  return applyDecorators(...(rule === undefined ? [] : [rule]), ValidateIf(isPresent));
}

/** Applies a custom rule to a field. class-validator, the compiled predicate and OpenAPI all use it. */
export function Obeys(rule: Rule, options?: ValidationOptions): PropertyDecorator {
  return ValidateBy(
    {
      name: rule.name,
      constraints: [rule],
      validator: {
        validate: rule.test,
        defaultMessage: (args) =>
          `${args?.property ?? 'value'} must be ${rule.phrase ?? describeSchema(rule.schema)}`,
      },
    },
    options,
  );
}

/** A condition that a schema cannot express. `phrase` completes "<field> must be ...", such as "a subject naming at least one level". */
export function Satisfies(phrase: string, test: (value: unknown) => boolean): PropertyDecorator {
  return Obeys({ name: `satisfies ${phrase}`, test, schema: {}, phrase });
}

/** An exact integer of up to 64 bits: a safe `number`, or a `bigint`, which the body parser returns beyond 2^53. */
export function IsInt64({
  min,
  max = INT64_MAX,
}: {
  min: number | bigint;
  max?: number | bigint;
}): PropertyDecorator {
  const test = (value: unknown): boolean =>
    (typeof value === 'number' ? Number.isSafeInteger(value) : typeof value === 'bigint') &&
    (value as number | bigint) >= min &&
    (value as number | bigint) <= max;
  return Obeys({
    name: 'isInt64',
    test,
    schema: { type: 'integer', format: 'int64', minimum: min, maximum: max },
  });
}

interface Bounds {
  readonly min?: number;
  readonly max?: number | undefined;
}

function within(
  type: 'integer' | 'number',
  { min = -Number.MAX_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }: Bounds,
  options?: ValidationOptions,
): PropertyDecorator {
  const test = (value: unknown): boolean =>
    typeof value === 'number' &&
    value >= min &&
    value <= max &&
    (type === 'number' || Number.isInteger(value));
  const minimum = min === -Number.MAX_SAFE_INTEGER ? {} : { minimum: min };
  return Obeys({ name: `is ${type}`, test, schema: { type, ...minimum, maximum: max } }, options);
}

/** A whole number that a double can have exactly. */
export function IsInt(bounds: Bounds = {}): PropertyDecorator {
  return within('integer', bounds);
}

/** A number. It ends where doubles become inexact. */
export function IsNumber(bounds: Bounds = {}, options?: ValidationOptions): PropertyDecorator {
  return within('number', bounds, options);
}

/** The protocol limits values, but not names. */
const MAX_NAME_LENGTH = 256;

/** An object whose values are strings, such as a subject's dimensions. */
export function IsStringMap({
  maxEntries,
  maxValueLength,
}: {
  maxEntries: number;
  maxValueLength: number;
}): PropertyDecorator {
  const test = (value: unknown): boolean => {
    if (!isPlainObject(value)) {
      return false;
    }
    const entries = Object.entries(value);
    return (
      entries.length <= maxEntries &&
      entries.every(
        ([name, entry]) =>
          lengthWithin(name, 0, MAX_NAME_LENGTH) &&
          typeof entry === 'string' &&
          lengthWithin(entry, 0, maxValueLength),
      )
    );
  };
  return Obeys({
    name: 'isStringMap',
    test,
    schema: {
      type: 'object',
      maxProperties: maxEntries,
      additionalProperties: { type: 'string', maxLength: maxValueLength },
    },
    phrase: `names of at most ${MAX_NAME_LENGTH} characters`,
  });
}

/** Any JSON object, such as metadata, within the maximum size and nesting. */
export const FREE_OBJECT: Rule = {
  name: 'isFreeObject',
  test: (value) =>
    isPlainObject(value) &&
    depthWithin(value, FREE_OBJECT_MAX_DEPTH) &&
    oversizeOf(value, FREE_OBJECT_MAX_BYTES) === undefined,
  schema: { type: 'object', additionalProperties: true },
  phrase: `a JSON object nested at most ${FREE_OBJECT_MAX_DEPTH} levels deep, of at most ${FREE_OBJECT_MAX_BYTES} bytes as JSON`,
  oversize: (value) => oversizeOf(value, FREE_OBJECT_MAX_BYTES),
};

export function IsFreeObject(): PropertyDecorator {
  return Obeys(FREE_OBJECT);
}

/** Limits the size of an object or array, in bytes of its JSON in UTF-8. Combine it with rules on its form. */
export function MaxJsonBytes(limit = FREE_OBJECT_MAX_BYTES): PropertyDecorator {
  const oversize = (value: unknown): ReturnType<typeof oversizeOf> => oversizeOf(value, limit);
  const phrase = `at most ${limit} bytes as JSON`;
  return Obeys({
    name: 'maxJsonBytes',
    test: (value) => oversize(value) === undefined,
    schema: {},
    phrase,
    oversize,
  });
}

/**
 * String length in Unicode code points, like JSON Schema. The decorators of class-validator with the same names do not count
 * variation selectors, so a text of any size could pass; `readRules` refuses them.
 */
export function Length(min: number, max: number, options?: ValidationOptions): PropertyDecorator {
  return Obeys(
    {
      name: 'length',
      test: (value) => lengthWithin(value, min, max),
      schema: { type: 'string', minLength: min, maxLength: max },
    },
    options,
  );
}

/** See `Length`. */
export function MaxLength(max: number, options?: ValidationOptions): PropertyDecorator {
  const test = (value: unknown): boolean => lengthWithin(value, 0, max);
  return Obeys({ name: 'maxLength', test, schema: { type: 'string', maxLength: max } }, options);
}

/** A string that a pattern matches. @throws Error for a pattern with flags: they are not in its schema, and with `g` or `y` it keeps a place */
export function Matches(pattern: RegExp): PropertyDecorator {
  if (pattern.flags !== '') {
    throw new Error(`Matches() takes a RegExp without flags, not ${String(pattern)}`);
  }
  const test = (value: unknown): boolean => typeof value === 'string' && pattern.test(value);
  return Obeys({ name: 'matches', test, schema: { type: 'string', pattern: pattern.source } });
}

/** One of some words, ignoring case. The service must normalise it to the documented case. */
export function IsInAnyCase(words: readonly string[]): PropertyDecorator {
  const known = new Set(words.map((word) => word.toLowerCase()));
  return Obeys({
    name: 'isInAnyCase',
    test: (value) => typeof value === 'string' && known.has(value.toLowerCase()),
    schema: { type: 'string', enum: words },
  });
}

/** An object that is checked by its own class. */
export function Nested(type: () => new () => object): PropertyDecorator {
  return applyDecorators(IsObject(), ValidateNested(), Type(type));
}

/** An array of objects that are checked by their own class. */
export function NestedArray(type: () => new () => object): PropertyDecorator {
  return applyDecorators(IsArray(), IsObject({ each: true }), ValidateNested({ each: true }), Type(type));
}

function lengthWithin(value: unknown, min: number, max: number): boolean {
  if (typeof value !== 'string') {
    return false;
  }
  const units = value.length;
  // A code point has one or two UTF-16 units, so most texts need no counting.
  if (units <= max && units >= min * 2) {
    return true;
  }
  if (units < min || units > max * 2) {
    return false;
  }
  let points = units;
  for (let index = 0; index < units - 1; index += 1) {
    if ((value.charCodeAt(index) & 0xfc00) === 0xd800 && (value.charCodeAt(index + 1) & 0xfc00) === 0xdc00) {
      points -= 1;
    }
  }
  return points >= min && points <= max;
}
