import { plainToInstance } from 'class-transformer';
import { arrayMaxSize, arrayMinSize, getMetadataStorage } from 'class-validator';
import { isPlainObject } from '../exact-json.js';
import { isPresent } from './decorators.js';
import type { Rule, Schema } from './rule.js';

export type DtoClass<T extends object = object> = new () => T;

export interface FieldRules {
  readonly name: string;
  readonly optional: boolean;
  readonly rules: readonly Rule[];
  /** Rules for each item; the field itself is then an array. */
  readonly itemRules: readonly Rule[];
  readonly nested?: ClassRules;
  /** Names of the constraints whose message the DTO itself gives, instead of a generated one. */
  readonly ownMessages: ReadonlySet<string>;
}

export interface ClassRules {
  readonly dto: DtoClass;
  readonly fields: ReadonlyMap<string, FieldRules>;
}

type Metadata = ReturnType<ReturnType<typeof getMetadataStorage>['getTargetValidationMetadatas']>[number];

const known = new Map<DtoClass, ClassRules>();

/**
 * Reads the class-validator and class-transformer metadata of a DTO, once.
 * @throws Error at boot for a decorator that cannot be compiled: a rule must never be dropped silently.
 */
export function readRules(dto: DtoClass): ClassRules {
  const read = known.get(dto);
  if (read !== undefined) {
    return read;
  }
  const storage = getMetadataStorage();
  const byField = storage.groupByPropertyName(storage.getTargetValidationMetadatas(dto, '', true, false));
  const names = Object.keys(byField);
  if (names.length === 0) {
    throw new Error(`${dto.name} has no validation rules`);
  }
  const fields = new Map<string, FieldRules>();
  const result: ClassRules = { dto, fields };
  known.set(dto, result);
  for (const name of names) {
    fields.set(name, readField(dto, name, byField[name] ?? []));
  }
  return result;
}

function readField(dto: DtoClass, name: string, metadatas: readonly Metadata[]): FieldRules {
  const where = `${dto.name}.${name}`;
  const rules: Rule[] = [];
  const itemRules: Rule[] = [];
  const ownMessages = new Set<string>();
  let optional = false;
  let nested: ClassRules | undefined;
  // Decorators run from the bottom up. Reversed, the rules are in the order of the source.
  for (const metadata of [...metadatas].reverse()) {
    if (metadata.validateIf !== undefined || (metadata.groups ?? []).length > 0) {
      throw new Error(`${where}: validateIf and groups are not supported`);
    }
    if (metadata.type === 'conditionalValidation') {
      if (metadata.constraints[0] !== isPresent) {
        throw new Error(
          `${where}: use Optional() from src/wire; IsOptional would accept an explicit null, and ValidateIf cannot be compiled`,
        );
      }
      optional = true;
    } else if (metadata.type === 'nestedValidation') {
      nested = readRules(nestedClass(dto, name));
    } else {
      const rule = toRule(where, metadata);
      (metadata.each ? itemRules : rules).push(rule);
      if (metadata.message) {
        ownMessages.add(metadata.name ?? rule.name);
      }
    }
  }
  const isList = rules.some((rule) => rule.schema.type === 'array');
  const holdsObjects = (isList ? itemRules : rules).some((rule) => rule.schema.type === 'object');
  if ((itemRules.length > 0 && !isList) || (nested !== undefined && !holdsObjects)) {
    throw new Error(
      `${where}: add IsArray() or IsObject(), or use Nested or NestedArray: class-validator would accept other values`,
    );
  }
  return { name, optional, rules, itemRules, ownMessages, ...(nested === undefined ? {} : { nested }) };
}

/** A class with some fields of another one, and with their rules, in the order that they have there. Fields that are nested classes cannot be taken. */
export function fieldsFrom<T extends object, Name extends keyof T & string>(
  dto: DtoClass<T>,
  ...names: readonly Name[]
): DtoClass<Pick<T, Name>> {
  class Fields {}
  const storage = getMetadataStorage();
  for (const metadata of storage.getTargetValidationMetadatas(dto, '', true, false)) {
    if ((names as readonly string[]).includes(metadata.propertyName)) {
      storage.addValidationMetadata({ ...metadata, target: Fields });
    }
  }
  return Fields as DtoClass<Pick<T, Name>>;
}

/** The class that class-transformer creates for a nested field. Its type metadata is not public, so it is made to create one. */
function nestedClass(dto: DtoClass, name: string): DtoClass {
  const built = (plainToInstance(dto, { [name]: [{}] }) as Record<string, unknown>)[name];
  const item: unknown = Array.isArray(built) ? built[0] : built;
  const type: unknown = typeof item === 'object' && item !== null ? item.constructor : undefined;
  if (typeof type !== 'function' || type === Object || type === Array) {
    throw new Error(`${dto.name}.${name}: a nested field needs Type(() => Class)`);
  }
  return type as DtoClass;
}

type Builder = (constraints: readonly unknown[]) => Pick<Rule, 'test' | 'schema'>;

/** The supported decorators of class-validator. Each test is class-validator's own, or a faster one that is equal for JSON values. */
const BUILDERS: Readonly<Record<string, Builder>> = {
  isString: () => ({ test: (value) => typeof value === 'string', schema: { type: 'string' } }),
  isBoolean: () => ({ test: (value) => typeof value === 'boolean', schema: { type: 'boolean' } }),
  isObject: () => ({ test: isPlainObject, schema: { type: 'object' } }),
  isArray: () => ({ test: (value) => Array.isArray(value), schema: { type: 'array' } }),
  arrayMinSize: ([size]) => ({
    test: (value) => arrayMinSize(value, size as number),
    schema: { minItems: size as number },
  }),
  arrayMaxSize: ([size]) => ({
    test: (value) => arrayMaxSize(value, size as number),
    schema: { maxItems: size as number },
  }),
  isIn: ([values]) => {
    const allowed = [...(values as readonly unknown[])];
    const known = new Set(allowed);
    return { test: (value) => known.has(value), schema: { enum: allowed, ...typeOf(allowed) } };
  },
};

function typeOf(values: readonly unknown[]): Schema {
  return values.every((value) => typeof value === 'string') ? { type: 'string' } : {};
}

function toRule(where: string, metadata: Metadata): Rule {
  const constraints = (metadata.constraints ?? []) as readonly unknown[];
  const own = constraints[0];
  if (isRule(own)) {
    return own;
  }
  const name = metadata.name ?? metadata.type;
  const build = Object.hasOwn(BUILDERS, name) ? BUILDERS[name] : undefined;
  if (build === undefined) {
    throw new Error(
      name === 'isLength' || name === 'minLength' || name === 'maxLength'
        ? `${where}: import Length and MaxLength from src/wire; those of class-validator do not count every character`
        : `${where}: the decorator ${name} cannot be compiled; use a supported one, Obeys or Satisfies`,
    );
  }
  try {
    return { name, ...build(constraints) };
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`, { cause: error });
  }
}

function isRule(value: unknown): value is Rule {
  return typeof value === 'object' && value !== null && 'test' in value && 'schema' in value;
}

/** The OpenAPI schema of a DTO, from the rules that its requests are checked with. */
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

/** What all rules allow. */
function schemaOf(rules: readonly Rule[]): Schema {
  return Object.assign({}, ...rules.map((rule) => rule.schema)) as Schema;
}

export function fieldSchema(field: FieldRules): Schema {
  const schema = schemaOf(field.rules);
  const phrases = field.rules.flatMap((rule) => (rule.phrase === undefined ? [] : [rule.phrase]));
  if (phrases.length > 0) {
    schema.description = phrases.join(' and ');
  }
  if (field.itemRules.length > 0) {
    schema.items = schemaOf(field.itemRules);
  }
  if (field.nested === undefined) {
    return schema;
  }
  const nested = classSchema(field.nested);
  return schema.type === 'array' ? { ...schema, items: nested } : { ...nested, ...schema, ...nested };
}
