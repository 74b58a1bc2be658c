import { Refusal } from '../../ledger/index.js';
import { readRules, type ClassRules, type DtoClass } from './class-rules.js';
import { compileRules } from './compile.js';
import { explain } from './explain.js';
import { fieldSchema } from './schema.js';

const INTEGER = /^-?\d{1,19}$/;
const NUMBER = /^-?\d{1,19}(\.\d{1,19})?$/;

type Convert = (text: string) => unknown;

/**
 * Like `compileValidator`, for query strings: declared integers, numbers and booleans are converted from their text, lists
 * of strings from their comma-separated text without white space around and empty items between the commas, and
 * parameters that the DTO does not declare are ignored (the protocol's additive-parameter guarantee).
 * @throws Refusal INVALID_REQUEST naming the parameter and what is allowed.
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
        throw new Refusal('INVALID_REQUEST', `${name} is given more than once; give it once`, {
          field: name,
        });
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

/** A text that does not convert stays a text: the rules then refuse it with their own words. */
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

function exactInteger(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}
