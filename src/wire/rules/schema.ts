import { type ClassRules, type DtoClass, type FieldRules, readRules } from './class-rules.js';
import type { Schema } from './rule.js';

/** The OpenAPI schema of a DTO, from the rules that requests are really checked with. */
export function rulesToSchema(dto: DtoClass): Schema {
  return classSchema(readRules(dto));
}

function classSchema(rules: ClassRules): Schema {
  const properties: Record<string, Schema> = {};
  const required: string[] = [];
  for (const field of rules.fields.values()) {
    properties[field.name] = fieldSchema(field);
    if (!field.optional) {
      required.push(field.name);
    }
  }
  return {
    type: 'object',
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
    properties,
  };
}

export function fieldSchema(field: FieldRules): Schema {
  const schema: Schema = Object.assign({}, ...field.rules.map((rule) => rule.schema)) as Schema;
  const phrases = field.rules.flatMap((rule) => (rule.phrase === undefined ? [] : [rule.phrase]));
  if (phrases.length > 0) {
    schema.description = phrases.join(' and ');
  }
  if (field.itemRules.length > 0) {
    schema.items = Object.assign({}, ...field.itemRules.map((rule) => rule.schema)) as Schema;
  }
  if (field.nested === undefined) {
    return schema;
  }
  const nested = classSchema(field.nested);
  return schema.type === 'array' ? { ...schema, items: nested } : { ...nested, ...schema, ...nested };
}
