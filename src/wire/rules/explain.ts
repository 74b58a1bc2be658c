import { validateSync, type ValidationError } from 'class-validator';
import { Refusal } from '../../ledger/index.js';
import { isWrittenAsDecimal } from '../exact-json.js';
import { type ClassRules, type FieldRules, fieldSchema } from './class-rules.js';
import { oversizeMessage } from './decorators.js';
import { describeSchema } from './rule.js';

/** Keeps the response short, even if every field is wrong. */
const MAX_PROBLEMS = 10;
const MAX_NAME_LENGTH = 64;

export interface Problem {
  readonly field: string;
  readonly message: string;
  /** Only for a value that is too large. */
  readonly size_bytes?: number;
  readonly limit_bytes?: number;
}

/** Checks a refused body with class-validator and describes each problem: the path of the field, and what is allowed there. */
export function explain(rules: ClassRules, body: unknown): Refusal {
  if (body === undefined || body === null) {
    return new Refusal(
      'INVALID_REQUEST',
      'the request needs a JSON object as its body, with Content-Type: application/json',
    );
  }
  if (typeof body !== 'object' || Array.isArray(body)) {
    return new Refusal('INVALID_REQUEST', 'the request body must be a JSON object');
  }
  const problems = findProblems(rules, body as Record<string, unknown>);
  const first = problems[0];
  if (first === undefined) {
    return new Refusal('INVALID_REQUEST', `the request body does not match ${rules.dto.name}`);
  }
  const message = problems.map((problem) => problem.message).join('; ');
  const { message: _, ...details } = first;
  return new Refusal('INVALID_REQUEST', message, { ...details, problems });
}

/** The problems that class-validator finds in the whole body. */
export function findProblems(rules: ClassRules, body: Record<string, unknown>): Problem[] {
  const problems: Problem[] = [];
  const instance = instantiate(rules, body, '', problems);
  collect(rules, validateSync(instance, { forbidUnknownValues: true }), '', problems);
  return problems.slice(0, MAX_PROBLEMS);
}

/** Creates the instances that class-validator checks, with the known fields only. Each unknown field is a problem. */
function instantiate(
  rules: ClassRules,
  value: Record<string, unknown>,
  path: string,
  problems: Problem[],
): object {
  const instance = Object.create(rules.dto.prototype as object) as Record<string, unknown>;
  for (const [name, entry] of Object.entries(value)) {
    const field = rules.fields.get(name);
    if (field === undefined) {
      const shown = path + shorten(name);
      problems.push({
        field: shown,
        message: `unknown field '${shown}'; allowed: ${[...rules.fields.keys()].join(', ')}`,
      });
    } else if (fieldSchema(field).type === 'integer' && isWrittenAsDecimal(value, name)) {
      const allowed = describeSchema(fieldSchema(field));
      problems.push({
        field: path + name,
        message: `${path + name} must be ${allowed}, written without a fraction or an exponent`,
      });
      instance[name] = entry;
    } else {
      instance[name] = instantiateEntry(field, entry, path + name, problems);
    }
  }
  return instance;
}

function instantiateEntry(field: FieldRules, entry: unknown, path: string, problems: Problem[]): unknown {
  const { nested } = field;
  if (nested === undefined || typeof entry !== 'object' || entry === null) {
    return entry;
  }
  if (Array.isArray(entry)) {
    return entry.map((item: unknown, index) => {
      if (typeof item !== 'object' || item === null) {
        return item;
      }
      // An array here is a problem anyway. Emptying it keeps class-validator from descending into it without limit.
      return Array.isArray(item)
        ? []
        : instantiate(nested, item as Record<string, unknown>, `${path}[${index}].`, problems);
    });
  }
  return instantiate(nested, entry as Record<string, unknown>, `${path}.`, problems);
}

function collect(
  rules: ClassRules,
  errors: readonly ValidationError[],
  path: string,
  problems: Problem[],
): void {
  for (const error of errors) {
    const field = rules.fields.get(error.property);
    if (field === undefined) {
      continue;
    }
    const here = path + field.name;
    if (error.constraints !== undefined && Object.keys(error.constraints).length > 0) {
      problems.push(
        oversizeProblem(field, here, error.value) ?? { field: here, message: messageFor(field, here, error) },
      );
    }
    for (const child of error.children ?? []) {
      collectChild(field, child, here, problems);
    }
  }
}

/** A child is a field of a nested object, or an item of an array, whose children are fields. */
function collectChild(field: FieldRules, child: ValidationError, path: string, problems: Problem[]): void {
  const { nested } = field;
  if (nested === undefined) {
    return;
  }
  if (!Array.isArray(child.target)) {
    collect(nested, [child], `${path}.`, problems);
    return;
  }
  // An item that is not an object is reported for the array, whose message says what each item must be.
  collect(nested, child.children ?? [], `${path}[${child.property}].`, problems);
}

function oversizeProblem(field: FieldRules, path: string, value: unknown): Problem | undefined {
  for (const { oversize } of field.rules) {
    const sizes = oversize?.(value);
    if (sizes !== undefined) {
      return { field: path, message: oversizeMessage(path, sizes), ...sizes };
    }
  }
  return undefined;
}

function messageFor(field: FieldRules, path: string, error: ValidationError): string {
  for (const [name, message] of Object.entries(error.constraints ?? {})) {
    if (field.ownMessages.has(name)) {
      return message;
    }
  }
  const schema = fieldSchema(field);
  const phrases = field.rules.flatMap((rule) => (rule.phrase === undefined ? [] : [rule.phrase]));
  const saysMore = phrases.length === 0 || (schema.type !== 'object' && schema.type !== undefined);
  const allowed = [...(saysMore ? [describeSchema(schema)] : []), ...phrases].join(' and ');
  if (error.value === undefined) {
    return `${path} is required; it must be ${allowed}`;
  }
  return error.value === null && !field.optional
    ? `${path} must not be null; it must be ${allowed}`
    : nullAware(path, error.value, allowed) + wrongItem(field, path, error.value);
}

/** Names the first item of an array that must not be there. */
function wrongItem(field: FieldRules, path: string, value: unknown): string {
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  const index = items.findIndex((item) => field.itemRules.some(({ test }) => !test(item)));
  if (index < 0) {
    return '';
  }
  const item = items[index];
  return `; ${path}[${index}] is not${typeof item === 'string' ? `: ${JSON.stringify(shorten(item))}` : ''}`;
}

function nullAware(path: string, value: unknown, allowed: string): string {
  return value === null
    ? `${path} must not be null; leave it out, or give ${allowed}`
    : `${path} must be ${allowed}`;
}

function shorten(name: string): string {
  return name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}...` : name;
}
