import { isWrittenAsDecimal } from '../json.js';
import { explain } from './explain.js';
import { readRules, type ClassRules, type DtoClass, type FieldRules } from './class-rules.js';
import type { Rule } from './rule.js';
import { fieldSchema } from './schema.js';

type Test = (value: unknown) => boolean;

interface CompiledField {
  readonly required: boolean;
  readonly isInteger: boolean;
  readonly test: Test;
}

/**
 * Compiles the rules of a DTO into one fast check of a parsed JSON body. The body itself is returned, typed: nothing is
 * copied or converted. A refused body goes through class-validator once more, which says what is wrong.
 * @throws Refusal INVALID_REQUEST, its details naming each field and what is allowed there.
 */
export function compileValidator<T extends object>(dto: DtoClass<T>): (body: unknown) => T {
  const rules = readRules(dto);
  const accepts = compileRules(rules);
  return (body) => {
    if (!accepts(body)) {
      throw explain(rules, body);
    }
    return body as T;
  };
}

/** The bare predicate of a DTO's rules; exact for JSON values. */
export function compileRules(rules: ClassRules): Test {
  const fields = new Map<string, CompiledField>();
  let requiredCount = 0;
  for (const field of rules.fields.values()) {
    fields.set(field.name, {
      required: !field.optional,
      isInteger: fieldSchema(field).type === 'integer',
      test: compileField(field),
    });
    requiredCount += field.optional ? 0 : 1;
  }
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return false;
    }
    let seen = 0;
    for (const key in value) {
      const field = fields.get(key);
      if (field === undefined) {
        return false;
      }
      const entry = (value as Record<string, unknown>)[key];
      if (entry === undefined && !field.required) {
        continue;
      }
      if (!field.test(entry) || (field.isInteger && isWrittenAsDecimal(value, key))) {
        return false;
      }
      if (field.required) {
        seen += 1;
      }
    }
    return seen === requiredCount;
  };
}

function compileField(field: FieldRules): Test {
  const tests = field.rules.map((rule) => rule.test);
  const perItem = allOf(field.itemRules);
  const nested = field.nested === undefined ? undefined : compileRules(field.nested);
  if (field.itemRules.length > 0) {
    tests.push((value) => (value as unknown[]).every(perItem));
  }
  if (nested !== undefined) {
    tests.push((value) => (Array.isArray(value) ? value.every(nested) : nested(value)));
  }
  return chain(tests);
}

function allOf(rules: readonly Rule[]): Test {
  return chain(rules.map((rule) => rule.test));
}

/** Rules run in the order they are written and stop at the first that fails, so a type rule guards those after it. */
function chain(tests: readonly Test[]): Test {
  const [first, second, third, ...rest] = tests;
  if (first === undefined) {
    return () => true;
  }
  if (second === undefined) {
    return first;
  }
  if (third === undefined) {
    return (value) => first(value) && second(value);
  }
  if (rest.length === 0) {
    return (value) => first(value) && second(value) && third(value);
  }
  const others = chain(rest);
  return (value) => first(value) && second(value) && third(value) && others(value);
}
