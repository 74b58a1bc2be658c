import { invalidField } from '../../ledger/index.js';
import { exactInteger, isWrittenAsDecimal } from '../exact-json.js';
import { type ClassRules, type DtoClass, type FieldRules, readRules, fieldSchema } from './class-rules.js';
import { explain } from './explain.js';
import type { Rule } from './rule.js';

type Test = (value: unknown) => boolean;

interface CompiledField {
  readonly required: boolean;
  readonly isInteger: boolean;
  readonly test: Test;
}

/**
 * Compiles the rules of a DTO into one fast check of a parsed JSON body. It returns the body itself, typed, and copies or converts
 * nothing. To explain a refusal, the body is checked again by class-validator.
 * @throws Refusal INVALID_REQUEST, whose details name each field and what is allowed there.
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

/** The rules of a DTO as a predicate for JSON values. */
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

/** Runs tests in the order of the source up to the first that fails, so later ones can rely on the type rule. */
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

const INTEGER = /^-?\d{1,19}$/;
const NUMBER = /^-?\d{1,19}(\.\d{1,19})?$/;

type Convert = (text: string) => unknown;

/**
 * Like `compileValidator`, for query strings. Integers, numbers and booleans are converted from text, and lists of strings from
 * comma-separated text; items are trimmed, and empty ones dropped. Undeclared parameters are ignored (the protocol's
 * additive-parameter guarantee).
 * @throws Refusal INVALID_REQUEST that names the parameter and what is allowed.
 */
export function compileQuery<T extends object>(dto: DtoClass<T>): (query: unknown) => T {
  const rules = readRules(dto);
  const accepts = compileRules(rules);
  const converters = queryConverters(rules);
  return (query) => {
    const given = (query ?? {}) as Record<string, unknown>;
    const result: Record<string, unknown> = {};
    for (const [name, convert] of converters) {
      const value = given[name];
      if (Array.isArray(value)) {
        throw invalidField(name, `${name} is given more than once; give it once`);
      }
      if (typeof value === 'string') {
        result[name] = convert(value);
      }
    }
    if (!accepts(result)) {
      throw explain(rules, result);
    }
    return result as T;
  };
}

type Compile = <T extends object>(dto: DtoClass<T>) => (value: unknown) => T;

/** Compiles the rules of each DTO once: at boot where a decorator documents them, else when they are first asked for. */
function compiledOnce(compile: Compile): Compile {
  const compiled = new WeakMap<DtoClass, (value: unknown) => object>();
  return <T extends object>(dto: DtoClass<T>) => {
    let check = compiled.get(dto);
    if (check === undefined) {
      check = compile(dto);
      compiled.set(dto, check);
    }
    return check as (value: unknown) => T;
  };
}

export const bodyCheck = compiledOnce(compileValidator);
export const queryCheck = compiledOnce(compileQuery);

/** The body of a request, checked as by `compileValidator`. `ifAbsent` stands for a body that is absent. */
export function bodyOf<T extends object>(
  { body }: { readonly body: unknown },
  dto: DtoClass<T>,
  ifAbsent?: NoInfer<T>,
): T {
  return bodyCheck(dto)(body ?? ifAbsent);
}

/** The query parameters of a request, checked and converted as by `compileQuery`. */
export function queryOf<T extends object>({ query }: { readonly query: unknown }, dto: DtoClass<T>): T {
  return queryCheck(dto)(query);
}

function queryConverters(rules: ClassRules): [string, Convert][] {
  return [...rules.fields.values()].map((field) => {
    const schema = fieldSchema(field);
    const isList = schema.type === 'array' && schema.items?.type === 'string';
    if (field.nested !== undefined || (schema.type === 'array' && !isList) || schema.type === 'object') {
      throw new Error(
        `${rules.dto.name}.${field.name}: a query parameter is a string, a number, a boolean or a list of strings`,
      );
    }
    return [field.name, converterOf(schema.type)];
  });
}

/** Text that cannot be converted stays as it is, and is then refused by the rules. */
function converterOf(type: string | undefined): Convert {
  switch (type) {
    case 'integer':
      return (text) => (INTEGER.test(text) ? exactInteger(text) : text);
    case 'number':
      return (text) => (NUMBER.test(text) ? Number(text) : text);
    case 'boolean':
      return (text) => (text === 'true' ? true : text === 'false' ? false : text);
    case 'array':
      return (text) =>
        text
          .split(',')
          .map((item) => item.trim())
          .filter((item) => item !== '');
    default:
      return (text) => text;
  }
}
